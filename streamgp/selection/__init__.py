"""Which rows enter the active set."""

from streamgp.selection.ivm import IVM, HeadScores
from streamgp.selection.keys import RowKeys, stratified_quotas
from streamgp.selection.predictive import FPASS, PASS

__all__ = ["FPASS", "IVM", "PASS", "HeadScores", "RowKeys", "stratified_quotas"]
