"""What is common to all verbs: options, messages, exit codes."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tqdm.auto import tqdm

import streamgp
from streamgp.cli import data, demo, fit, use
from streamgp.errors import BudgetError, ParameterError, StreamGPError

WRONG_CALL, BAD_DATA, NO_MEMORY, INTERRUPTED = 2, 3, 4, 130

CODES = """\
exit codes: 0 done, 2 wrong call, 3 bad data or files, 4 the memory budget is too small, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what goes wrong is told in one line."""
    options = _parser().parse_args(arguments)
    with _messages(quiet=options.quiet):
        try:
            options.run(options)
        except KeyboardInterrupt as stop:
            return _told(str(stop) or "interrupted", INTERRUPTED)
        except Exception as error:
            code = _code(error)
            if options.debug or code is None:
                raise
            return _told(f"error: {_one_line(error)}", code)
    return 0


def _code(error: Exception) -> int | None:
    """The exit code of an error that a user can act on; None for a fault of ours."""
    if isinstance(error, BudgetError):
        return NO_MEMORY
    if isinstance(error, ParameterError | ImportError):  # a module that is missing belongs to an extra
        return WRONG_CALL
    return BAD_DATA if isinstance(error, StreamGPError | OSError) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _told(message: str, code: int) -> int:
    print(f"streamgp: {message}", file=sys.stderr)
    return code


class _Lines(logging.Handler):
    """Messages on the error stream, above the bars that may be there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        tqdm.write(self.format(record), file=sys.stderr)


@contextmanager
def _messages(*, quiet: bool) -> Iterator[None]:
    """The library's messages, and warnings as one line each, while a command runs."""
    logger, handler = logging.getLogger("streamgp"), _Lines()
    level, shown = logger.level, warnings.showwarning

    def show(message: Warning | str, *place: Any, **options: Any) -> None:
        logger.warning("warning: %s", message)

    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown
        logger.setLevel(level)
        logger.removeHandler(handler)


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with a call in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with the code of a wrong call."""
        self.exit(WRONG_CALL, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="streamgp",
        description=streamgp.__doc__,
        epilog=f"`streamgp COMMAND --help` shows options and an example.\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=streamgp.__version__)
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as one JSON object")
    common.add_argument("--quiet", action="store_true", help="no messages but warnings, no progress bars")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    for verb in (demo, data, fit, use):
        verb.add_to(verbs, common)
    return parser
