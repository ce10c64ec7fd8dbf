"""A kernel for each class: no kernel itself, but it stands in the place of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamgp.errors import ParameterError
from streamgp.kernels.base import Kernel
from streamgp.kernels.serialization import kernel_from_json


@dataclass(frozen=True)
class ClassKernels:
    """Kernels of the latent functions of classes, in the order of ``classes_``.

    >>> from streamgp.kernels import RBF, Linear
    >>> kernels = ClassKernels((RBF(), Linear(), RBF(lengthscale=2.0)))
    >>> len(kernels), kernels[1]
    (3, Linear(variance=1.0))
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(self.kernels))
        for number, kernel in enumerate(self.kernels):
            if not isinstance(kernel, Kernel):
                raise ParameterError(
                    f"kernel is a list, one for each class, but its entry {number} is {kernel!r}, no kernel"
                )
        if len(self.kernels) < 3:
            raise ParameterError(
                f"kernel is a list of {len(self.kernels)}; it has one for each class, of three or more"
            )

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, head: int) -> Kernel:
        return self.kernels[head]

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.kernels)

    @property
    def has_white_noise(self) -> bool:
        """Whether some part of one is white noise."""
        return any(kernel.has_white_noise for kernel in self.kernels)

    def check_features(self, n_features: int) -> None:
        """Raise unless every one can be used with rows of so many features."""
        for kernel in self.kernels:
            kernel.check_features(n_features)

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`class_kernels_from_json`."""
        return {"kind": "ClassKernels", "kernels": [kernel.to_json() for kernel in self.kernels]}


def class_kernels_from_json(record: dict[str, Any]) -> ClassKernels:
    """The kernels whose :meth:`~ClassKernels.to_json` gave this record."""
    return ClassKernels(tuple(kernel_from_json(one) for one in record["kernels"]))


def each_kernel(kernel: Kernel | ClassKernels, count: int) -> tuple[Kernel, ...]:
    """One kernel for each of so many latent functions: their own, or the one that they share."""
    return kernel.kernels if isinstance(kernel, ClassKernels) else (kernel,) * count
