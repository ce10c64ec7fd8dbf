"""The frozen posterior: a block of rows in, mean and variance of the latent function out."""

from streamgp.posterior.by_class import ClassesSnapshot
from streamgp.posterior.precision import Precision, choose_dtype
from streamgp.posterior.snapshot import Head, Marginals, Snapshot

__all__ = ["ClassesSnapshot", "Head", "Marginals", "Precision", "Snapshot", "choose_dtype"]
