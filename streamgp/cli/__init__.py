"""The command line: thin, every verb one call of the library."""

from streamgp.cli.main import main

__all__ = ["main"]
