"""The posterior of classes that have a kernel each: theirs side by side, one function in every one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array
from streamgp.kernels import ClassKernels, Kernel, class_kernels_from_json
from streamgp.posterior.mixture import beside
from streamgp.posterior.snapshot import Head, Marginals, Snapshot


@dataclass(frozen=True, eq=False)
class ClassesSnapshot:
    """Posteriors of one latent function each, in the order of classes; kernels and inputs are their own."""

    members: tuple[Snapshot, ...]

    witness_rows: ClassVar[int] = 16
    """Active inputs asked about when a saved model is checked; of every class some."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of the first class."""
        return self.members[0].kernel

    @property
    def kernels(self) -> ClassKernels:
        """The kernels of all classes."""
        return ClassKernels(tuple(member.kernel for member in self.members))

    @property
    def starts(self) -> list[int]:
        """Where the inputs of each class begin among all."""
        sizes = [len(member.active_inputs) for member in self.members]
        return [0, *accumulate(sizes[:-1])]

    @cached_property
    def active_inputs(self) -> Array:
        """The active inputs of all classes, one class after the other."""
        return np.concatenate([member.active_inputs for member in self.members])

    @property
    def heads(self) -> tuple[Head, ...]:
        """The latent functions; their columns count within all active inputs."""
        stops = [*self.starts[1:], len(self.active_inputs)]
        return tuple(
            replace(member.heads[0], columns=slice(*place))
            for member, place in zip(self.members, zip(self.starts, stops, strict=True), strict=True)
        )

    @property
    def training_bytes(self) -> int:
        """Bytes of training rows that predictions need: none beside the active inputs."""
        return 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the arithmetic in a pass."""
        return self.members[0].dtype

    @cached_property
    def prepared(self) -> None:
        """Every class has its kernel made ready."""
        for member in self.members:
            _ = member.prepared

    def in_memory(self) -> ClassesSnapshot:
        """The same posterior with nothing left on disk: itself."""
        return self

    def __reduce__(self) -> tuple[type[ClassesSnapshot], tuple[Any, ...]]:
        """Sent to other processes without what each makes for itself."""
        return ClassesSnapshot, (self.members,)

    def buffer(self, rows: int) -> None:
        """None: every class has a kernel block of its own, one at a time."""

    def astype(self, dtype: DTypeLike) -> ClassesSnapshot:
        """The same posterior for passes in another precision."""
        return ClassesSnapshot(tuple(member.astype(dtype) for member in self.members))

    def marginals(
        self, features: Array, with_variance: bool = True, kernel_out: Array | None = None
    ) -> Marginals:
        """Latent mean and variance of standardised rows, (c, classes) each."""
        return beside([member.marginals(features, with_variance) for member in self.members])

    def to_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON and arrays for the disk: as of classes that share a kernel, and the kernels."""
        header, arrays = Snapshot(self.kernel, self.active_inputs, self.heads).to_record()
        return header | {"kernels": self.kernels.to_json()}, arrays

    @staticmethod
    def from_record(header: dict[str, Any], arrays: dict[str, Any], standardizer: object) -> ClassesSnapshot:
        """The snapshot that was written."""
        together = Snapshot.from_record(header, arrays, standardizer)
        kernels = class_kernels_from_json(header["kernels"])
        kernels.check_features(together.active_inputs.shape[1])
        return ClassesSnapshot(
            tuple(
                Snapshot(
                    kernel,
                    together.active_inputs[head.columns],
                    (replace(head, columns=slice(0, len(head.projected_targets))),),
                )
                for kernel, head in zip(kernels, together.heads, strict=True)
            )
        )
