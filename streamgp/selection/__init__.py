"""Which rows enter the active set."""

from streamgp.selection.random import random_rows

__all__ = ["random_rows"]
