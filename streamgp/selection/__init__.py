"""Which rows enter the active set."""

from streamgp.selection.ivm import IVM, HeadScores
from streamgp.selection.keys import RowKeys, key_bounds, stratified_quotas

__all__ = ["IVM", "HeadScores", "RowKeys", "key_bounds", "stratified_quotas"]
