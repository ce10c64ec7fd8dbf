"""Which rows enter the active set."""

from streamgp.selection.baseline import Random
from streamgp.selection.inducing import EvidenceGain, Kmeans
from streamgp.selection.ivm import IVM, HeadScores
from streamgp.selection.keys import RowKeys, key_bounds, score_bound, stratified_quotas
from streamgp.selection.predictive import FPASS, PASS
from streamgp.selection.printed import IVM2003, IVM2006
from streamgp.selection.virtual import rotate, translate

__all__ = [
    "FPASS",
    "IVM",
    "IVM2003",
    "IVM2006",
    "PASS",
    "EvidenceGain",
    "HeadScores",
    "Kmeans",
    "Random",
    "RowKeys",
    "key_bounds",
    "rotate",
    "score_bound",
    "stratified_quotas",
    "translate",
]
