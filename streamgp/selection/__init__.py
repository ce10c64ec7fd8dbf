"""Which rows enter the active set."""

from streamgp.selection.ivm import IVM, HeadScores
from streamgp.selection.keys import RowKeys, stratified_quotas

__all__ = ["IVM", "HeadScores", "RowKeys", "stratified_quotas"]
