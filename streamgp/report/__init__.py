"""One page about a model: what was fitted, how good it is, what it has learned, what it cost."""

from streamgp.report.page import write_report

__all__ = ["write_report"]
