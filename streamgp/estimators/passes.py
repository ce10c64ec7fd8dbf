"""Passes of a fitted model over rows, inside its budget: marginals, predictions, scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sklearn.utils.validation import check_is_fitted

from streamgp.budget import parse_size
from streamgp.data import Rows, Span, open_rows
from streamgp.data.fingerprint import fingerprint
from streamgp.data.missing import warn_of_absent
from streamgp.data.rows import Names, Store
from streamgp.errors import ParameterError
from streamgp.estimators.columns import opened
from streamgp.estimators.inputs import check_names, features_of
from streamgp.estimators.output import as_group
from streamgp.estimators.running import n_threads
from streamgp.inference.local.snapshot import LocalSnapshot
from streamgp.inference.local.waves import run_in_waves
from streamgp.passes import CollectMarginals, PassSettings, PredictionWriter, Reading, Visitor, run_pass
from streamgp.passes.bad_rows import LeaveOutBadRows, check_on_bad_rows, warn_of_bad_rows
from streamgp.passes.marginals import concatenate
from streamgp.passes.prediction import IDENTITY, Columns, Predictions, output_group
from streamgp.persistence import LargeArray, record_digest
from streamgp.posterior import Marginals
from streamgp.posterior.mixture import members_of
from streamgp.posterior.model import Model
from streamgp.training.plan import Demand, make_plan

if TYPE_CHECKING:
    from streamgp.estimators.base import StreamGPEstimator

T = TypeVar("T")


def marginals(estimator: StreamGPEstimator, X: Any, with_variance: bool = True) -> Marginals:
    """Latent marginals of rows in memory, inside the budget."""
    check_is_fitted(estimator)
    features = features_of(estimator, X)
    ready = planned(estimator, open_rows(features, y=None))
    return concatenate(visit(estimator, ready, CollectMarginals(with_variance)))


def evaluate(
    estimator: StreamGPEstimator,
    store: Store,
    x: Names,
    y: str,
    visitor: Visitor[T],
    on_bad_rows: str,
    allow_missing_chunks: bool,
) -> T:
    """One pass of a visitor that compares predictions with the targets of a store."""
    check_is_fitted(estimator)
    with opened(estimator, store, x, y, allow_missing_chunks) as found:
        ready = planned(estimator, found)
        warn_of_absent(*ready.rows.check_chunks())
        counted: tuple[T, int] = visit(estimator, ready, LeaveOutBadRows(visitor), on_bad_rows)
    warn_of_bad_rows(counted[1], "are left out of the score")
    return counted[0]


def write(
    estimator: StreamGPEstimator,
    store: Store,
    x: Names,
    out: Any,
    columns: Columns,
    predict: Callable[[Marginals], Predictions],
    on_bad_rows: str,
    allow_missing_chunks: bool,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write what ``predict`` makes of every row of a store to a new Zarr group, or to a table.

    A group that a killed run has begun is gone on with; a table begins again.
    """
    check_is_fitted(estimator)
    attributes = attributes or {}
    with (
        as_group(out, attributes.get("classes")) as group,
        opened(estimator, store, x, None, allow_missing_chunks) as found,
    ):
        ready = planned(estimator, found)
        rows = ready.rows
        warn_of_absent(*rows.check_chunks())
        how = [fingerprint(rows.features), rows.span_rows, on_bad_rows]
        header, arrays = estimator.model_.to_record()
        # The posterior is a sum over all rows: those that the model holds need not be read to tell it.
        small = {name: array for name, array in arrays.items() if not isinstance(array, LargeArray)}
        identity = record_digest(header, small, extra=how)
        with output_group(group, rows, columns, {IDENTITY: identity, **attributes}) as output:
            writer = PredictionWriter(predict, output.arrays)
            bad = output.bad_rows
            if output.spans:
                bad += visit(estimator, ready, writer, on_bad_rows, spans=output.spans)[1]
            output.note_bad_rows(bad)
    warn_of_bad_rows(bad, "have NaN as predictions, and -1 as label")


class Ready(NamedTuple):
    """Rows cut into spans, the settings of passes over them, and what these leave of the budget."""

    rows: Rows
    settings: PassSettings
    spare_bytes: int


def planned(estimator: StreamGPEstimator, rows: Rows) -> Ready:
    """Make rows ready for passes of the fitted model, inside the budget."""
    if rows.n_features != estimator.n_features_in_:
        raise ParameterError(
            f"rows have {rows.n_features} features, but the model was fitted to {estimator.n_features_in_}"
        )
    check_names(estimator, rows.feature_names)
    demand = fitted_demand(estimator.model_, rows)
    plan = make_plan(demand, parse_size(estimator.memory_budget), n_threads(estimator.n_jobs))
    settings = PassSettings(
        plan.rows_per_block, plan.tasks_in_flight, estimator.client, estimator.progress, plan.read_ahead
    )
    return Ready(rows.cut(plan.span_rows), settings, plan.spare_bytes)


def visit(
    estimator: StreamGPEstimator,
    ready: Ready,
    visitor: Visitor[T],
    on_bad_rows: str = "raise",
    spans: Iterable[Span] | None = None,
) -> T:
    """One pass of the fitted model over rows."""
    model = estimator.model_
    how: dict[str, Any] = {
        "reading": Reading(model.standardizer, model.targets, model.snapshot.dtype),
        "on_bad_rows": check_on_bad_rows(on_bad_rows),
        "spans": spans,
        "label": "predict",
    }
    snapshot, half = model.snapshot, ready.spare_bytes // 2
    for member in members_of(snapshot):
        if isinstance(member, LocalSnapshot):
            member.recent.resize(half)
    if isinstance(snapshot, LocalSnapshot):
        return run_in_waves(ready.rows, visitor, ready.settings, half, snapshot=snapshot, **how)
    return run_pass(ready.rows, visitor, ready.settings, snapshot=snapshot, **how)


def fitted_demand(model: Model, rows: Rows) -> Demand:
    """What passes of a fitted model over rows ask of the memory; members of an average all at once."""
    likelihood = model.predictive.likelihoods[0]
    demands = [_demand(member, likelihood, rows) for member in members_of(model.snapshot)]
    dearest = max(demands, key=lambda demand: (demand.head_rows, demand.n_active))
    return replace(dearest, n_active=sum(demand.n_active for demand in demands))


def _demand(snapshot: Any, likelihood: Any, rows: Rows) -> Demand:
    if isinstance(snapshot, LocalSnapshot):
        size, heads = len(snapshot.active_inputs), len(snapshot.posteriors)
        most = snapshot.table.most_rows
        kernel = snapshot.kernel
        return Demand(
            rows, kernel, size, heads, 8, shared=True, fitted=True, likelihood=likelihood, head_rows=most
        )
    largest = max(len(head.projected_targets) for head in snapshot.heads)
    matrices = sum(head.projection is not None for head in snapshot.heads)
    return Demand(
        rows,
        snapshot.kernel,
        largest,
        max(1, matrices),
        snapshot.dtype.itemsize,
        shared=len(snapshot.active_inputs) == largest,
        fitted=True,
        likelihood=likelihood,
        joint_classes=len(snapshot.heads),
    )
