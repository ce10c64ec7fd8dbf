"""The pass: every chunk of a store visited once, partial results merged in the order of rows."""

from streamgp.passes.block import Block, Reading, Visitor
from streamgp.passes.evaluation import ClassEvaluation, RealEvaluation
from streamgp.passes.marginals import CollectMarginals
from streamgp.passes.prediction import PredictionWriter
from streamgp.passes.run import PassSettings, run_pass
from streamgp.passes.summary import Summarize, Summary

__all__ = [
    "Block",
    "ClassEvaluation",
    "CollectMarginals",
    "PassSettings",
    "PredictionWriter",
    "Reading",
    "RealEvaluation",
    "Summarize",
    "Summary",
    "Visitor",
    "run_pass",
]
