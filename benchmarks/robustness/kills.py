"""Processes killed at any moment: what is resumed ends at the same bits, and nothing half-written is read.

Every recipe is fitted with a checkpoint and killed again and again, as are ``save``, ``predict_stream`` and
a fit with scratch and no checkpoint. ``different`` counts results with other bits than those of a run that
was left alone, and ``left`` the files that stayed; both must be 0. ``--points`` kills at named moments
instead of random ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import RawArray
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import streamgp
from benchmarks.harness import Options, Row, Rows, Script, defaults, option
from benchmarks.robustness.recipes import RECIPES, Settings
from streamgp.data.columns import ZarrPiece
from streamgp.passes.prediction import PredictionWriter
from streamgp.passes.sites import SiteSweep
from streamgp.passes.summary import Summarize
from streamgp.persistence import atomic, checkpoints
from streamgp.settings import Local

POINTS: dict[str, tuple[Any, str, int]] = {
    "in the first pass": (Summarize, "visit", 1),
    "in a sweep, sites not written": (SiteSweep, "finish", 2),
    "a step written, not pointed to": (checkpoints, "replace_text", 2),
    "pointed to, older steps not removed": (checkpoints, "_steps", 4),
    "a step half written": (atomic, "flush_tree", 5),
    "a model written, not renamed": (atomic, "flush", -1),
    "predictions half written": (PredictionWriter, "finish", 3),
    "predictions written, not renamed": (Path, "rename", 1),
}
"""Where a process is killed: in which call of a function (-1: the first one for the model's file)."""
ROWS_READ = RawArray("q", 1)


@dataclass(frozen=True)
class Case:
    """Work that can be interrupted: what it does in a folder, and what it leaves there, as arrays."""

    name: str
    work: Callable[[Path], None]
    result: Callable[[Path], dict[str, np.ndarray]]
    kept: tuple[str, ...]  # names of files that belong there in the end


def cases(folder: Path, n_rows: int) -> list[Case]:
    """All that is killed: fits by every recipe, a save, predictions, a fit with scratch alone."""
    stores = {classes: _write(folder / f"{classes}.zarr", n_rows, classes) for classes in (2, 3)}
    recipes = {
        **RECIPES,
        "not learned": {"inference": "fitc", "selection": "random", "learn_hyperparameters": False},
    }
    found = [_fit_case(name, settings, stores) for name, settings in recipes.items()]
    model = streamgp.fit_stream(
        stores[2], n_active=20, selection="ivm", random_state=0, learn_hyperparameters=False
    )
    model.memory_budget = "1MiB"  # small, so that there are many spans

    def predict(place: Path) -> None:
        if (place / "out.zarr").exists():  # it was killed when all was done: what has this name is complete
            return
        model.predict_stream(stores[2], place / "out.zarr")

    def save(place: Path) -> None:
        for _ in range(5):
            model.save(place / "model.zarr.zip")

    def fit_without_checkpoint(place: Path) -> None:
        settings = {"n_active": 20, "random_state": 0, "inference": "fitc", "learn_hyperparameters": False}
        fitted = streamgp.fit_stream(stores[2], scratch=place, **settings)
        fitted.save(place / "model.zarr.zip")

    return [
        *found,
        Case("predict_stream", predict, _predictions, ("out.zarr",)),
        Case("save", save, _model, ("model.zarr.zip",)),
        Case("scratch", fit_without_checkpoint, _model, ("model.zarr.zip",)),
    ]


def _fit_case(name: str, settings: Settings, stores: dict[int, Path]) -> Case:
    rest = {key: value for key, value in settings.items() if key != "classes"}
    store = stores[settings.get("classes", 2)]
    # Little memory, so that candidates are refreshed; small blocks, so that there are several of them.
    common = {"n_active": 20, "random_state": 0, "memory_budget": "24MiB"}
    if rest.get("inference", "local") == "local" and "selection" not in rest:
        common["memory_budget"] = "128MiB"
    if "inference" in rest and rest["inference"] == "local":
        rest["inference"] = Local(block_rows=100)

    def work(place: Path) -> None:
        fitted = streamgp.fit_stream(store, checkpoint=place / "steps", **common, **rest)
        fitted.save(place / "model.zarr.zip")

    return Case(name, work, _model, ("model.zarr.zip", "steps"))


def _write(path: Path, n_rows: int, classes: int) -> Path:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n_rows, 3))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * generator.standard_normal(n_rows)
    group = zarr.open_group(path, mode="w")
    chunk = max(1, n_rows // 8)
    group.create_array("X", data=X, chunks=(chunk, 3))
    labels = np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1]) + 1
    group.create_array("y", data=labels, chunks=(chunk,))
    return path


def _model(place: Path) -> dict[str, np.ndarray]:
    header, arrays = streamgp.load(place / "model.zarr.zip").model_.to_record()
    read = {name: getattr(array, "source", array)[:] for name, array in arrays.items()}
    return {**read, "header": np.array(repr(header))}


def _predictions(place: Path) -> dict[str, np.ndarray]:
    group = zarr.open_group(place / "out.zarr", mode="r")
    return {name: group[name][:] for name in ("label", "probability")}


def run(work: Callable[[Path], None], place: Path, seconds: float | None, point: str | None = None) -> bool:
    """Run work in a process of its own, killed after some seconds or at a point; whether it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _count_rows()
            if point is not None:
                _arm(*POINTS[point])
            work(place)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    deadline = None if seconds is None else time.monotonic() + seconds
    while deadline is not None and time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return _was_killed(status)
        time.sleep(0.002)
    if deadline is not None:
        os.kill(pid, signal.SIGKILL)
    return _was_killed(os.waitpid(pid, 0)[1])


def _was_killed(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        raise RuntimeError("a process ended with an error of its own")
    return False


def _count_rows() -> None:
    """Count the rows of features that this process reads from the store."""
    whole = ZarrPiece.load

    def load(self: ZarrPiece) -> Any:
        ROWS_READ[0] += (self.stop - self.start) * (self.name == "X")
        return whole(self)

    ZarrPiece.load = load  # type: ignore[method-assign]


def _arm(owner: Any, name: str, call: int) -> None:
    """Kill this process in a call of a function."""
    whole, calls = getattr(owner, name), [0]

    def armed(*arguments: Any, **options: Any) -> Any:
        is_model = call < 0 and "model.zarr.zip" in str(arguments[0])
        calls[0] += 1
        if calls[0] == call or is_model:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **options)

    setattr(owner, name, armed)


def rows(options: Options) -> Rows:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every = cases(folder, options.rows)
        wanted = POINTED if options.points else options.cases or [case.name for case in every]
        chosen = [case for case in every if case.name in wanted]
        generator = np.random.default_rng(options.seed)
        total = {"kills": 0, "different": 0, "left": 0, "rows_read_again": 0}
        for number, case in enumerate(chosen):
            if options.points:
                row = _at_points(case, folder / f"case{number}")
            else:
                row = _at_random(case, folder / f"case{number}", -(-options.kills // len(chosen)), generator)
            yield {"case": case.name, **row}
            total = {key: total[key] + row[key] for key in total}
        yield {"case": "all", **total}


POINTED = {
    "not learned": tuple(POINTS)[:6],
    "predict_stream": tuple(POINTS)[6:],
}
"""Cases that are killed at named points, and at which."""


def _at_points(case: Case, place: Path) -> Row:
    expected, read, _ = _left_alone(case, place)
    kills = different = left = again = 0
    for point in POINTED[case.name]:
        place.mkdir(parents=True)
        ROWS_READ[0] = 0
        killed = run(case.work, place, None, point)
        if not killed:
            raise RuntimeError(f"{case.name} never came to the point: {point}")
        kills += 1
        run(case.work, place, None)
        different += not same_arrays(case.result(place), expected)
        left += len(_leftovers(case, place))
        again += ROWS_READ[0] - read
        shutil.rmtree(place)
    return {"kills": kills, "different": different, "left": left, "rows_read_again": again}


def _at_random(case: Case, place: Path, kills: int, generator: np.random.Generator) -> Row:
    expected, read, seconds = _left_alone(case, place)
    done = different = left = again = chains = 0
    while done < kills:
        place.mkdir(parents=True)
        ROWS_READ[0], survived = 0, False
        for _ in range(8):
            began = time.monotonic()
            survived = not run(case.work, place, float(generator.uniform(0, seconds)))
            done += not survived
            if survived:  # it was quicker than the first run
                seconds = min(seconds, time.monotonic() - began)
            if survived or done >= kills:
                break
        run(case.work, place, None)
        chains += 1
        different += not same_arrays(case.result(place), expected)
        left += len(_leftovers(case, place))
        again += max(0, ROWS_READ[0] - read)
        shutil.rmtree(place)
    counts = {"kills": done, "different": different, "left": left, "rows_read_again": again}
    return {**counts, "rows_read_alone": read, "runs": chains, "seconds_alone": round(seconds, 2)}


def _left_alone(case: Case, place: Path) -> tuple[dict[str, np.ndarray], int, float]:
    """What a run that nobody kills gives, the rows that it reads, its seconds; first here, to compile all."""
    place.mkdir(parents=True)
    case.work(place)
    expected = case.result(place)
    shutil.rmtree(place)
    place.mkdir()
    ROWS_READ[0], started = 0, time.monotonic()
    run(case.work, place, None)
    seconds = time.monotonic() - started
    assert same_arrays(case.result(place), expected)
    shutil.rmtree(place)
    return expected, ROWS_READ[0], seconds


def same_arrays(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    """Whether all arrays have the same bits."""
    return found.keys() == expected.keys() and all(
        found[name].tobytes() == expected[name].tobytes() for name in expected
    )


def _leftovers(case: Case, place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.name not in case.kept]


SCRIPT = Script(
    "kills",
    __doc__,
    rows,
    (
        *defaults(kills=300, rows=400, seed=0),
        option("--points", False, "kill at the eight named points"),
        option("--cases", None, "only these, by name", nargs="+"),
    ),
)

if __name__ == "__main__":
    SCRIPT.main()
