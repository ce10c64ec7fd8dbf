"""``plan`` without data: what a fit of rows that are not there yet would take."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from streamgp.budget import format_size
from streamgp.cli.shown import tell
from streamgp.cli.values import given_parameters
from streamgp.data.imagined import imagined_itemsize
from streamgp.errors import ParameterError
from streamgp.estimators.base import StreamGPEstimator
from streamgp.passes.run import available_threads
from streamgp.settings import fit_settings
from streamgp.tables.chunks import rows_per_chunk
from streamgp.training.forecast import Forecast, Question, forecast
from streamgp.training.rates import rates


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Options in the place of data."""
    group = parser.add_argument_group(
        "in the place of data",
        "classes by their joint mode, in seconds of machines like this one: rates are measured once (ten "
        "seconds) and remembered",
    )
    group.add_argument("--rows", type=_count, help="such as 1e9")
    group.add_argument("--features", type=_count)
    group.add_argument("--active", type=_count, default=1000, help="inducing inputs (default: 1000)")
    group.add_argument("--classes", type=_count, default=2, help="default: 2")
    group.add_argument("--workers", type=_count, default=1, help="worker processes (default: 1)")
    group.add_argument("--threads", type=_count, help="of each worker (default: cores of this machine, or 1)")
    group.add_argument("--stored-as", default="float32", choices=("uint8", "float16", "float32", "float64"))
    group.add_argument("--chunk-rows", type=_count, help="of the store (default: as ingest makes them)")
    group.add_argument("--measure-again", action="store_true", help="do not use the rates remembered")


def _count(text: str) -> int:
    number = float(text)
    if number < 1 or number != int(number):
        raise argparse.ArgumentTypeError(f"{text} is no whole number of at least 1")
    return int(number)


def imagine(options: argparse.Namespace) -> None:
    """Forecast and tell."""
    if options.rows is None or options.features is None:
        raise ParameterError("give a store, or --rows and --features of one that is not there yet")
    if options.classes < 2:
        raise ParameterError("--classes must be at least 2")
    threads = options.threads or (available_threads() if options.workers == 1 else 1)
    question = Question(
        options.rows,
        options.features,
        min(options.active, options.rows),
        options.classes,
        options.workers,
        threads,
        options.stored_as,
        options.chunk_rows
        or rows_per_chunk(options.rows, options.features * imagined_itemsize(options.stored_as)),
    )
    estimator = StreamGPEstimator(**given_parameters(options), progress=False)
    settings = fit_settings(estimator.get_params(deep=False), 0)
    found = forecast(question, settings, rates(again=options.measure_again))
    tell(options, {**question._asdict(), **found.to_dict()}, _lines(question, found))


def _lines(question: Question, found: Forecast) -> Iterator[str]:
    """For people."""
    where = f"{question.workers} workers of {question.threads} threads"
    yield f"{question.rows:,} rows of {question.features} features, {question.classes} classes; {where}"
    held = ", rows are held in memory" if found.rows_are_held else ""
    yield f"a pass                    {found.pass_seconds:>12,.1f} s"
    yield f"passes of the mode        {found.passes:>12}{held}"
    yield f"rows read in all          {found.rows_read:>12,}"
    for name, seconds in found.stages.items():
        yield f"  {name:<24}{seconds:>12,.1f} s"
    yield f"the whole fit             {found.seconds:>12,.1f} s"
    yield f"memory of the fit         {format_size(found.memory_bytes):>12}"
    yield f"the store, uncompressed   {format_size(found.store_bytes):>12}"
    yield f"scratch on disk           {format_size(found.scratch_bytes):>12}"
