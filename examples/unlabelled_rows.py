"""Rows without a label: two moons of which ten rows are labelled, learned with and without the 490 others."""

import numpy as np

from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from streamgp.likelihoods import NullCategory

generator = np.random.default_rng(1)


def moons(rows):
    angle, moon = np.pi * generator.random(rows), generator.integers(0, 2, rows)
    x = np.where(moon, 1 - np.cos(angle), np.cos(angle))
    y = np.where(moon, 0.5 - np.sin(angle), np.sin(angle))
    return np.column_stack([x, y]) + 0.1 * generator.standard_normal((rows, 2)), moon


X, moon = moons(500)
X_new, moon_new = moons(2000)
y = np.full(len(X), np.nan)  # NaN: no label. NullCategory(missing=-1) would read -1 so.
for label in (0, 1):
    some = np.flatnonzero(moon == label)[:5]
    y[some] = label

labelled = ~np.isnan(y)
settings = {"selection": "ivm", "kernel": RBF(10.0, 0.4), "learn_hyperparameters": False, "random_state": 0}
few = StreamGPClassifier(10, **settings).fit(X[labelled], y[labelled])
all_rows = StreamGPClassifier(200, likelihood=NullCategory(), **settings).fit(X, y)
print(f"error with {labelled.sum()} labelled rows: {np.mean(few.predict(X_new) != moon_new):.3f}")
print(f"with {(~labelled).sum()} others beside them: {np.mean(all_rows.predict(X_new) != moon_new):.3f}")
print("probabilities of the classes:", all_rows.predict_proba(X_new[:2]).round(3).tolist())
