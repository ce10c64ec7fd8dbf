"""How far work has come: a bar for each pass, and around it one for the fit that the passes belong to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

FIT_FORMAT = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"


class Progress:
    """Bars on a terminal or in a notebook, and a count of what passes did.

    ``show`` None: silent unless there is a terminal or a notebook. One object goes with one fit; its counts
    grow with every pass: ``rows_read`` rows in ``pass_seconds`` seconds (of passes at once counted once).
    """

    def __init__(self, show: bool | None = None) -> None:
        self.show = show
        self.rows_read = 0
        self.pass_seconds = 0.0
        self._outer: Any = None
        self._passing, self._begun = 0, 0.0

    @staticmethod
    def of(progress: bool | Progress | None) -> Progress:
        """The object that was given, else one that shows as much as was asked for."""
        return progress if isinstance(progress, Progress) else Progress(progress)

    @property
    def _hidden(self) -> bool | None:
        return None if self.show is None else not self.show

    @contextmanager
    def passing(self, rows: int, label: str) -> Iterator[Callable[[int], None]]:
        """A bar for one pass over so many rows; what it yields is told how many more are done."""
        with (
            self._timed(),
            tqdm(
                total=rows,
                desc=label if self._outer is None else f"  {label}",
                unit="row",
                unit_scale=True,
                disable=self._hidden,
                leave=self._outer is None,
            ) as bar,
        ):

            def advance(count: int) -> None:
                bar.update(count)

            yield advance
        with tqdm.get_lock():
            self.rows_read += rows

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Seconds in which at least one pass runs."""
        with tqdm.get_lock():  # several threads may run passes; a lock of its own could not be copied
            self._begun = self._begun if self._passing else time.perf_counter()
            self._passing += 1
        try:
            yield
        finally:
            with tqdm.get_lock():
                self._passing -= 1
                if not self._passing:
                    self.pass_seconds += time.perf_counter() - self._begun

    @contextmanager
    def fitting(self, n_stages: int) -> Iterator[None]:
        """A bar for a whole fit of so many stages; :meth:`reached` moves it."""
        # Time left follows from the mean of all stages so far: an average that forgets would jump.
        with tqdm(
            total=n_stages, desc="fit", bar_format=FIT_FORMAT, smoothing=0, disable=self._hidden
        ) as bar:
            self._outer = bar
            try:
                yield
            finally:
                self._outer = None

    def reached(self, stages: float, name: str, told: str = "") -> None:
        """The fit has done so many stages (a part of one counts too), and is at the one named."""
        if self._outer is not None:
            self._outer.n = stages
            self._outer.set_description_str(name, refresh=False)
            self._outer.set_postfix_str(told, refresh=False)
            self._outer.refresh()
