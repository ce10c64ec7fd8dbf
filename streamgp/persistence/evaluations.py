"""An optimiser resumed by replay: what it has asked before is answered from a log.

SciPy's optimisers cannot be stopped and continued, but they are deterministic: fed the same values they ask
for the same points. So a run that starts again with the log of its evaluations arrives where it was, without
computing them, and goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.errors import CheckpointError

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""x (n,) → value and gradient (n,)."""
_MEMORY = "memory/"


class EvaluationLog:
    """An objective that remembers: earlier evaluations are replayed, new ones computed and appended.

    ``earlier`` is what :meth:`arrays` gave before. The next point asked for must have the bits of the next
    one in the log, else :class:`CheckpointError`: it is not the same problem. ``on_evaluation`` is called
    with the log after each new evaluation, to save a checkpoint; not during replay. ``memory`` is what the
    objective keeps for its own next call; it is saved and restored with the log. This is the one place of the
    training that keeps state between calls.

    >>> import numpy as np
    >>> log = EvaluationLog(lambda x: (float(x @ x), 2 * x))
    >>> value, gradient = log(np.array([3.0]))
    >>> resumed = EvaluationLog(objective=None, earlier=log.arrays())  # nothing is computed
    >>> resumed(np.array([3.0]))
    (9.0, array([6.]))
    """

    def __init__(
        self,
        objective: Objective | None,
        earlier: Mapping[str, Array] | None = None,
        on_evaluation: Callable[[EvaluationLog], None] | None = None,
    ) -> None:
        self._objective = objective
        self._on_evaluation = on_evaluation
        self._evaluations = [] if earlier is None else _unpack(earlier)
        self.memory: dict[str, FloatArray] = {
            name.removeprefix(_MEMORY): np.array(array)
            for name, array in (earlier or {}).items()
            if name.startswith(_MEMORY)
        }
        self._asked = 0

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient at ``x``, in the same bits whether computed or replayed."""
        point = np.array(x, dtype=np.float64)  # copies: optimisers may reuse x, and overwrite the gradient
        if self.is_replaying:
            logged, value, gradient = self._evaluations[self._asked]
            _check_same(self._asked, logged, point)
            self._asked += 1
            return value, gradient.copy()
        if self._objective is None:
            raise CheckpointError(f"evaluation {self._asked} is not in the log, and there is no objective")
        computed, slope = self._objective(point.copy())
        value, gradient = float(computed), np.array(slope, dtype=np.float64)
        if gradient.shape != point.shape:
            raise ValueError(f"the gradient has shape {gradient.shape} at a point of shape {point.shape}")
        self._evaluations.append((point, value, gradient))
        self._asked += 1
        if self._on_evaluation is not None:
            self._on_evaluation(self)
        return value, gradient.copy()

    def __len__(self) -> int:
        """Number of evaluations in the log, replayed yet or not."""
        return len(self._evaluations)

    @property
    def smallest(self) -> float:
        """The smallest value in the log; infinite while it is empty."""
        return min((value for _, value, _ in self._evaluations), default=np.inf)

    @property
    def best(self) -> tuple[FloatArray, float]:
        """The point of the smallest value in the log, and that value; of equal ones the first."""
        point, value, _ = min(self._evaluations, key=lambda evaluation: evaluation[1])
        return point.copy(), value

    @property
    def is_replaying(self) -> bool:
        """Whether the next call is answered from the log."""
        return self._asked < len(self._evaluations)

    def arrays(self) -> dict[str, FloatArray]:
        """The log as arrays for a record: points (k, n), values (k,), gradients (k, n), and the memory."""
        size = self._evaluations[0][0].size if self._evaluations else 0
        return {
            "points": np.array([point for point, _, _ in self._evaluations]).reshape(len(self), size),
            "values": np.array([value for _, value, _ in self._evaluations], dtype=np.float64),
            "gradients": np.array([gradient for _, _, gradient in self._evaluations]).reshape(
                len(self), size
            ),
            **{_MEMORY + name: array for name, array in self.memory.items()},
        }


def _unpack(
    earlier: Mapping[str, Array],
) -> list[tuple[FloatArray, float, FloatArray]]:
    missing = [name for name in ("points", "values", "gradients") if name not in earlier]
    if missing:
        raise CheckpointError(
            f"the log of evaluations lacks {', '.join(missing)}; use another checkpoint folder"
        )
    points, values, gradients = (
        np.array(earlier[name], dtype=np.float64) for name in ("points", "values", "gradients")
    )
    if points.ndim != 2 or gradients.shape != points.shape or values.shape != points.shape[:1]:
        raise CheckpointError(
            f"the log of evaluations holds points {points.shape}, values {values.shape} and gradients "
            f"{gradients.shape}, not (k, n), (k,) and (k, n); use another checkpoint folder"
        )
    return [
        (point, float(value), gradient)
        for point, value, gradient in zip(points, values, gradients, strict=True)
    ]


def _check_same(number: int, logged: FloatArray, point: FloatArray) -> None:
    if logged.tobytes() == point.tobytes():
        return
    if logged.shape != point.shape:
        found = f"at a point of {point.size} parameters, where the log has {logged.size}"
    else:
        place = int(np.flatnonzero(logged.view(np.int64) != point.view(np.int64))[0])
        found = f"with parameter {place} = {point[place]!r}, where the log has {logged[place]!r}"
    raise CheckpointError(
        f"evaluation {number} is asked for {found}: it is not the same problem (data, start, optimiser, "
        f"versions or machine type differ); use another checkpoint folder, or the same settings"
    )
