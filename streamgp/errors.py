"""What can go wrong, each a subclass of the built-in exception that a caller would expect.

Every message says what was found and what to do about it. All of them pickle, so that a worker's error
reaches the user unchanged.
"""

from __future__ import annotations


class StreamGPError(Exception):
    """Base of all errors raised by streamgp on purpose."""


class StoreError(StreamGPError, ValueError):
    """A store, or an array in it, does not have the form that was asked for."""


class ArrayNotFoundError(StreamGPError, KeyError):
    """A named array is not in the store."""

    def __str__(self) -> str:
        """The message itself: KeyError would quote it."""
        return str(self.args[0]) if self.args else ""


class UnsupportedDtypeError(StreamGPError, TypeError):
    """An array holds values that cannot be used as features or targets."""


class NonFiniteDataError(StreamGPError, ValueError):
    """The data contain NaN or infinity."""


class ChunkReadError(StreamGPError, OSError):
    """A chunk could not be read or decoded, or is missing although it was once written."""


class ClusterError(StreamGPError, ConnectionError):
    """The scheduler of a cluster was lost while its workers had tasks."""


class TargetError(StreamGPError, ValueError):
    """The targets do not fit the task: one class only, constant, too many distinct labels, ..."""


class TableError(StreamGPError, ValueError):
    """Raw columns cannot be read, or not be used as asked; the message names them."""


class MissingExtraError(StreamGPError, ImportError):
    """A library that comes with an extra of streamgp is not installed."""


class ParameterError(StreamGPError, ValueError):
    """A parameter is outside of its range."""


class BudgetError(MemoryError, StreamGPError):  # in this order it can be unpickled everywhere
    """The work does not fit into the memory budget."""


class NumericsWarning(UserWarning):
    """A computation went on, but with reduced accuracy or a value that was floored."""


class NotConvergedWarning(NumericsWarning):
    """A search or an iteration ended before it was as near to its end as was asked for."""


class DataWarning(UserWarning):
    """The data can be used, but not as efficiently, or not as meant."""


class ClusterWarning(UserWarning):
    """A cluster does not do any work at the moment; the message says what is waited for."""


class NothingLearnedWarning(UserWarning):
    """A fitted model is no better than the targets' distribution alone, or worse than a linear model."""


class ModelFileError(StreamGPError, ValueError):
    """A saved record cannot be written as asked, or is absent, damaged, newer, or of another kind."""


class CheckpointError(StreamGPError, ValueError):
    """A checkpoint does not belong to this training, or cannot be used."""
