"""A generated table of every kind of column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="the tests of raw columns make them with pandas")
pytest.importorskip("pyarrow", reason="raw columns are read by pyarrow, which the extra 'ingest' brings")


def make_frame(n_rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Numbers, truth values, few and many categories, dates, gaps, and a target of two classes."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "distance": generator.uniform(50, 3000, n_rows).round(1),
            "weight": generator.standard_normal(n_rows),
            "stops": generator.integers(0, 4, n_rows),
            "night": generator.random(n_rows) < 0.3,
            "carrier": np.array(["AA", "BB", "Ć, D"])[generator.integers(0, 3, n_rows)],
            "airport": np.array([f"P{number:02d}" for number in range(40)])[
                generator.integers(0, 40, n_rows)
            ],
            "when": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(generator.integers(0, 4 * 10**7, n_rows), unit="s"),
        }
    )
    chance = 0.2 + 0.5 * (frame["airport"] < "P20") * (frame["distance"] > 1000)
    frame["late"] = np.where(generator.random(n_rows) < chance, "yes", "no")
    for name in ("weight", "airport"):
        frame.loc[generator.random(n_rows) < 0.05, name] = None
    return frame


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="session")
def parquet(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "flights.parquet"
    frame.to_parquet(path, index=False)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Callable[[], Path]:
    """New places for stores."""
    numbers = iter(range(1000))
    return lambda: tmp_path / f"out{next(numbers)}.zarr"
