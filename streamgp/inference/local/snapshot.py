"""The posterior of local blocks, frozen: rows in, means and variances out, by the blocks near each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.data import Standardizer
from streamgp.inference.inducing.basis import Basis
from streamgp.inference.inducing.posterior import InducingPosterior
from streamgp.inference.local.cavities import Cavities, head_cavities
from streamgp.inference.local.combination import combine, continuous_weights
from streamgp.inference.local.divided import divide_block, divided_bytes
from streamgp.inference.local.prediction import (
    head_bytes,
    predict_bytes,
    predict_residuals,
    residual_rows,
)
from streamgp.inference.local.prior import block_prior, first_rows
from streamgp.inference.local.recent import LatentsInTurn, RecentHeads, WidenedHead, sites_of
from streamgp.inference.local.workspace import Workspace
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel, Prepared, kernel_from_json
from streamgp.passes.block_store import MODEL_ARRAYS, BlockStore, BlockTable, inner_rows
from streamgp.passes.nearest import Nearest, centre_tree, nearest_centres
from streamgp.passes.run import PassSettings, run_tasks
from streamgp.persistence import LargeArray
from streamgp.posterior import Marginals
from streamgp.posterior.calibration import Calibration

POSTERIOR_ARRAYS = ("spread", "projected_targets", "inducing_mean")
TABLE_ARRAYS = BlockTable._fields[:-1]
ROWS_AT_ONCE = 512
"""New rows that meet a block's factor at a time."""
MOST_HELD = 8
"""Latent functions up to which a head is held whole; of more, each has its turn with the rows that ask."""


class LeftOut(NamedTuple):
    """Latent moments of a block's own rows, each as if left out, and their row numbers: (b, heads), (b,)."""

    mean: FloatArray
    variance: FloatArray
    numbers: IntArray


@dataclass(frozen=True, eq=False)
class LocalSnapshot:
    """A Gaussian posterior of latent functions, in which near rows speak for themselves.

    A row is predicted by the ``neighbours`` blocks whose centres are nearest, each widened by its halo, and
    what they say is combined by weights that are continuous in the row; far from all blocks every one of them
    says what the inducing inputs say alone. Sites in the store count as they are.
    """

    basis: Basis
    posteriors: tuple[InducingPosterior, ...]
    calibrations: tuple[Calibration, ...]
    table: BlockTable
    store: BlockStore
    standardizer: Standardizer
    neighbours: int
    recent: RecentHeads = field(default_factory=lambda: RecentHeads(0))

    witness_rows: ClassVar[int] = 2
    """Active inputs asked about when a saved model is checked: for each, blocks are read and factored."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to other processes without what each makes for itself."""
        names = ("basis", "posteriors", "calibrations", "table", "store", "standardizer", "neighbours")
        return _unpickled, (*(getattr(self, name) for name in names), self.recent.most_bytes)

    @property
    def kernel(self) -> Kernel:
        """The kernel that all functions share."""
        return self.basis.kernel

    @property
    def starts(self) -> list[int]:
        """Where the inputs of each latent function begin among the active inputs: all share them."""
        return [0]

    @property
    def training_bytes(self) -> int:
        """Bytes of training rows that predictions need: those of the blocks."""
        return self.store.nbytes

    @property
    def active_inputs(self) -> Array:
        """The inducing inputs."""
        return self.basis.inducing

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the arithmetic: residuals are differences, so it is float64."""
        return np.dtype(np.float64)

    @cached_property
    def prepared(self) -> Prepared:
        """The kernel made ready for the inducing inputs."""
        return self.basis.prepared

    def to_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON and arrays for the disk: the training rows are among them, chunk by chunk."""
        header: dict[str, Any] = {
            "kernel": self.kernel.to_json(),
            "calibrations": [list(calibration) for calibration in self.calibrations],
            "local": {
                "jitter": self.basis.jitter,
                "neighbours": self.neighbours,
                "group_rows": self.table.group_rows,
            },
        }
        arrays: dict[str, Any] = {"active_inputs": self.basis.inducing, "whitening": self.basis.whitening}
        for number, posterior in enumerate(self.posteriors):
            for name in POSTERIOR_ARRAYS:
                arrays[f"heads/{number}/{name}"] = getattr(posterior, name)
        for name in TABLE_ARRAYS:
            arrays[f"table/{name}"] = getattr(self.table, name)
        rows = inner_rows(self.table.group_rows)
        for name in MODEL_ARRAYS:
            arrays[f"blocks/{name}"] = LargeArray(self.store.arrays[name], rows)
        return header, arrays

    @staticmethod
    def from_record(
        header: dict[str, Any], arrays: dict[str, Any], standardizer: Standardizer
    ) -> LocalSnapshot:
        """The posterior that was written; its blocks are read when they are needed."""
        local = header["local"]
        posteriors = tuple(
            InducingPosterior(
                **{name: arrays[f"heads/{number}/{name}"] for name in POSTERIOR_ARRAYS},
                log_determinant=-2.0 * float(np.log(arrays[f"heads/{number}/spread"].diagonal()).sum()),
            )
            for number in range(len(header["calibrations"]))
        )
        return LocalSnapshot(
            Basis(
                kernel_from_json(header["kernel"]),
                arrays["active_inputs"],
                arrays["whitening"],
                local["jitter"],
            ),
            posteriors,
            tuple(Calibration(*calibration) for calibration in header["calibrations"]),
            BlockTable(
                **{name: arrays[f"table/{name}"] for name in TABLE_ARRAYS}, group_rows=local["group_rows"]
            ),
            BlockStore({name: arrays[f"blocks/{name}"] for name in MODEL_ARRAYS}),
            standardizer,
            local["neighbours"],
        )

    def in_memory(self) -> LocalSnapshot:
        """The same posterior, all rows of its blocks read."""
        return replace(self, store=self.store.in_memory(), recent=RecentHeads(0))

    def buffer(self, rows: int) -> None:
        """None: rows are gathered block by block, each with room of its own."""

    @cached_property
    def tree(self) -> cKDTree | None:
        """The centres of many blocks in an order that finds near ones: made once in a process."""
        return centre_tree(self.table.centres)

    def nearest(self, features: Array) -> Nearest:
        """The blocks asked about each row, and the first one that is not: (c, k), (c, k + 1)."""
        asked = min(self.neighbours, self.table.n_blocks)
        found = nearest_centres(features / self.table.scale, self.table.centres, asked + 1, self.tree)
        return Nearest(found.labels[:, :asked], found.squares)

    def head(self, block: int) -> WidenedHead:
        """The head of a block: held, or made from its rows and sites."""
        held = self.recent.get(block)
        if held is None:
            inputs, latents = self._latents(block)
            if len(self.posteriors) > MOST_HELD:
                return WidenedHead(inputs, latents.prior.features, latents)
            held = WidenedHead(inputs, latents.prior.features, tuple(latents))
            self.recent.put(block, held)
        return held

    def left_out(self, block: int) -> LeftOut:
        """What a block's own rows are thought to be by all other rows."""
        (inputs, sites), room = self._rows(block), Workspace()
        prior, count = block_prior(self.basis, inputs), int(self.table.counts[block])
        own, moments = first_rows(prior, count), list[Cavities]()
        for head, posterior in enumerate(self.posteriors):
            found = sites_of(sites, head)
            alone = Sites(*(column[:count] for column in found))
            moments.append(
                head_cavities(divide_block(prior, found), divide_block(own, alone), posterior, room)
            )
        mean, variance = (np.stack(column, axis=1) for column in zip(*moments, strict=True))
        return LeftOut(mean, variance, self.store.read("numbers", int(self.table.starts[block]), count))

    def _latents(self, block: int) -> tuple[FloatArray, LatentsInTurn]:
        """Inputs of a block and its halo, and what makes the head of each latent function."""
        inputs, sites = self._rows(block)
        return inputs, LatentsInTurn(block_prior(self.basis, inputs), sites, self.posteriors)

    def _rows(self, block: int) -> tuple[FloatArray, FloatArray]:
        """Inputs and sites of a block's own rows and its halo."""
        table, read = self.table, self.store.read
        own = int(table.starts[block]), int(table.counts[block])
        halo = int(table.halo_starts[block]), int(table.halo_counts[block])
        stored = np.concatenate([read("features", *own), read("halo_features", *halo)])
        sites = np.concatenate([read("sites", *own), read("halo_sites", *halo)])
        return self.standardizer.apply(stored, np.float64), sites

    def by_block(self, block: int, rows: Array) -> Marginals:
        """What one block says about rows, not calibrated: (c, heads) each."""
        head = self.head(block)
        mean, variance = np.empty((2, len(rows), len(self.posteriors)))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            here = slice(start, start + ROWS_AT_ONCE)
            seen = residual_rows(self.basis, head.inputs, head.features, rows[here])
            for number, latent in enumerate(head.latents):
                found = predict_residuals(self.posteriors[number], latent, seen)
                mean[here, number], variance[here, number] = found
        return Marginals(mean, variance)

    def combined(self, mean: FloatArray, variance: FloatArray, squares: FloatArray) -> Marginals:
        """One calibrated marginal out of those of the blocks asked: (c, k, heads) each → (c, heads)."""
        means, variances = np.empty((2, len(mean), len(self.posteriors)))
        for number, (scale, offset, variance_scale, _) in enumerate(self.calibrations):
            # A variance of zero is one that rounding has taken: all such blocks are equally sure.
            spread = np.maximum(variance[:, :, number], np.finfo(np.float64).tiny)
            weights = continuous_weights(spread, squares)
            found = combine(mean[:, :, number], variance[:, :, number], weights)
            means[:, number] = scale * found.mean + offset
            variances[:, number] = variance_scale * found.variance
        return Marginals(means, variances)

    def marginals(
        self, features: Array, with_variance: bool = True, kernel_out: Array | None = None
    ) -> Marginals:
        """Latent mean and variance of standardised rows: rows are gathered block by block.

        Means need variances too, because blocks are weighed by them.
        Cost: for each block that is near to some row its head, unless held; for each row and block asked
        2 p (m + b) + 2 m² + 4 b m + b² flops, b rows of a block with its halo.
        """
        labels, squares = self.nearest(features)
        mean, variance = np.empty((2, *labels.shape, len(self.posteriors)))
        for block, rows, places in gathered(labels):
            found = self.by_block(block, features[rows])
            mean[rows, places], variance[rows, places] = found.mean, found.variance
        return self.combined(mean, variance, squares)


def _unpickled(*fields: Any) -> LocalSnapshot:
    return replace(LocalSnapshot(*fields[:-1]), recent=RecentHeads(fields[-1]))


def marginals_side_by_side(snapshot: LocalSnapshot, features: Array, settings: PassSettings) -> Marginals:
    """The same for rows in memory: one task a block, so that each head is made once.

    Shapes: features (c, p), standardised → (c, heads) each.
    """
    labels, squares = snapshot.nearest(features)
    asked = list(gathered(labels))
    found = run_tasks(
        _ask,
        snapshot,
        ((block, features[rows]) for block, rows, _ in asked),
        lambda earlier, later: earlier + later,
        settings,
        lengths=[len(rows) for _, rows, _ in asked],
        label="predict",
    )
    mean, variance = np.empty((2, *labels.shape, len(snapshot.posteriors)))
    for (_, rows, places), part in zip(asked, found, strict=True):
        mean[rows, places], variance[rows, places] = part
    return snapshot.combined(mean, variance, squares)


def _ask(snapshot: LocalSnapshot, block: int, rows: Array) -> list[Marginals]:
    return [snapshot.by_block(block, rows)]


def gathered(labels: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Each block that is asked, with the rows that ask it and its place among their labels (c, k)."""
    flat = labels.ravel()
    order = np.argsort(flat, kind="stable")
    blocks, first = np.unique(flat[order], return_index=True)
    for block, places in zip(blocks.tolist(), np.split(order, first[1:]), strict=True):
        yield block, places // labels.shape[1], places % labels.shape[1]


def local_snapshot_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int, n_heads: int) -> int:
    """Upper bound of the bytes of a task that predicts: one head of ``rows`` rows, and new rows beside it."""
    matrices = (n_heads if n_heads <= MOST_HELD else 1) * 8 * (rows * rows + rows * n_inducing)
    head = head_bytes(kernel, rows, n_inducing, n_features) + matrices + divided_bytes(rows, n_inducing)
    return head + predict_bytes(kernel, ROWS_AT_ONCE, rows, n_inducing, n_features)
