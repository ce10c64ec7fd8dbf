from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import streamgp
from streamgp.kernels import RBF
from streamgp.report import learned
from streamgp.report.effects import moves
from streamgp.report.facts import linear_scores, relevance

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--window-size=400,3000"),
]
FIXED = {"selection": "ivm", "learn_hyperparameters": False, "random_state": 0}


def rows(generator, count=600):
    X = generator.standard_normal((count, 3))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, "late", "on time")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page about a model of two classes, saved and loaded."""
    generator, folder = np.random.default_rng(0), tmp_path_factory.mktemp("report")
    kernel = RBF(4.0, (0.7, 1.4, 20.0))
    streamgp.StreamGPClassifier(60, kernel=kernel, **FIXED).fit(*rows(generator)).save(folder / "model.zip")
    streamgp.load(folder / "model.zip").report(folder / "report.html", rows(generator, 300))
    return folder / "report.html"


def headings(text):
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_a_page_of_two_classes_has_all_sections(page):
    text = page.read_text()
    assert headings(text) == [
        *("Scores", "Calibration", "Ranking and confusion", "Features", "Active rows", "The fit", "Learning"),
        "Cost",
    ]
    figures = re.findall(r'aria-label="(.*?)"', text)
    assert figures[:6] == [
        *(
            "Reliability diagram",
            "Rejection curve",
            "ROC curve",
            "Precision-recall curve",
            "Confusion matrix",
        ),
        "Relevance",
    ]
    assert figures.count("Effect of feature 0") == 1
    assert len(re.findall(r"<figcaption><b>Figure \d+\.</b> \S", text)) == len(figures)
    assert "select: ivm" in text
    assert "p(on time)" in text


def test_a_page_is_complete_in_itself(page):
    text = page.read_text()
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert "<script" not in text
    assert "@import" not in text
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S).lower().replace("dominant", "")
    ids = re.findall(r' id="(.*?)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'url\(#(.*?)\)|xlink:href="#(.*?)"', text)) <= {
        *((name, "") for name in ids),
        *(("", name) for name in ids),
    }


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to render the page")
def test_a_browser_shows_the_page_without_complaint(page, tmp_path):
    for name, more in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
        picture = tmp_path / f"{name}.png"
        command = [CHROMIUM, *FLAGS, *more, f"--user-data-dir={tmp_path / name}", f"--screenshot={picture}"]
        done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
        assert "CONSOLE" not in done.stderr
        assert picture.stat().st_size > 50_000  # an empty page has 10 kB
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()


def test_a_page_of_real_targets_and_one_without_data(tmp_path, generator):
    X = generator.standard_normal((500, 2))
    y = 50 + 5 * np.sin(2 * X[:, 0]) + generator.standard_normal(500)
    model = streamgp.StreamGPRegressor(40, kernel=RBF(1.0, 1.0), **FIXED).fit(X[:400], y[:400])
    model.report(tmp_path / "scored.html", (X[400:], y[400:]))
    scored = (tmp_path / "scored.html").read_text()
    assert "Residuals and intervals" in headings(scored)
    assert "one scale for all features" in scored
    assert "Effect of feature 0" in scored  # found by how far predictions move
    model.report(tmp_path / "alone.html")
    alone = (tmp_path / "alone.html").read_text()
    assert "No rows were given to score" in alone
    assert "Effect of feature 0" in alone


def test_digits_are_shown_as_images(tmp_path, generator):
    X = generator.random((300, 64))
    y = X[:, :21].sum(axis=1).astype(int) % 3
    model = streamgp.StreamGPClassifier(10, kernel=RBF(1.0, 3.0), **FIXED).fit(X, y)
    model.report(tmp_path / "report.html", (X, y))
    text = (tmp_path / "report.html").read_text()
    assert text.count("<image ") == 24
    assert [start % 10 for start in model.active_starts_] == [0, 0, 0]
    assert model.active_inputs_.shape == (30, 64)
    stored = X[model.active_rows_]
    np.testing.assert_allclose(model.active_inputs_, stored, atol=1e-5)


def test_relevance_is_of_the_part_that_counts_most():
    kernel = RBF(1.0, (1.0, 2.0)) + RBF(9.0, (4.0, 1.0))
    np.testing.assert_allclose(relevance(kernel, 2), [0.25, 1.0])
    assert relevance(RBF(1.0, 1.0), 2) is None


def test_a_linear_model_is_scored_on_rows_it_has_not_seen(generator):
    X = generator.standard_normal((400, 30))
    noise = linear_scores(X, generator.integers(2, size=400), are_classes=True)
    assert noise["error"] > 0.35
    y = X @ np.ones(30) + 0.5 * generator.standard_normal(400)
    assert linear_scores(X, y, are_classes=False)["rmse"] == pytest.approx(0.52, abs=0.08)


def test_sine_and_cosine_of_a_cycle_are_moved_together(generator):
    hours, days = generator.uniform(6, 22, 200), generator.integers(0, 5, 200)
    angles = np.stack([2 * np.pi * hours / 24, 2 * np.pi * days / 7], axis=1)
    distance = generator.uniform(0, 9, 200)
    table = np.stack([distance, *np.sin(angles).T, *np.cos(angles).T, np.ones(200)], axis=1)
    table[:9, 1:5] = 0.0  # where the date is missing
    names = ["distance", "left day sin", "left week sin", "left day cos", "left week cos", "constant"]
    day, week, other = moves(names, {"left day": "day", "left week": "week", "gone year": "year"}, table)
    assert day.features == (1, 3)
    assert day.axis == "left hour of the day"
    np.testing.assert_allclose(day.grid[[0, -1]], np.quantile(hours[9:], [0.02, 0.98]))
    np.testing.assert_allclose(
        day.values, np.stack([np.sin(day.grid / 24 * 2 * np.pi), np.cos(day.grid / 24 * 2 * np.pi)], 1)
    )
    np.testing.assert_array_equal(week.grid, np.arange(5))
    assert other.name == "distance"
    assert other.features == (0,)


def test_a_choice_without_a_trial_has_no_table_of_losses():
    assert not learned._tried([{"stage": "trial", "log_losses": {}}, {"stage": "learn: judged"}])
    [table] = learned._tried([{"stage": "trial", "log_losses": {"constant": 0.7, "linear model": 0.6}}])
    assert len(table.rows) == 3


def test_the_facts_count_inputs_that_are_no_rows(generator, tmp_path):
    X, y = rows(generator, 200)
    model = streamgp.StreamGPClassifier(
        20, kernel=RBF(1.0, 1.0), selection="kmeans", inference="fitc", learn_hyperparameters=False
    ).fit(X, y)
    model.report(tmp_path / "report.html", (X, y))
    text = (tmp_path / "report.html").read_text()
    assert re.search(r"<td>inducing inputs</td><td>20</td>", text)
    assert "<td>Probit(" in text
    assert "Brier score</td><td>0." in text
    assert re.search(r"Brier score</td>(<td>0\.\d{4}</td>){3}", text)
