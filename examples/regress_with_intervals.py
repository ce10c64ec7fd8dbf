"""Regression from a Zarr store, with an interval for every prediction."""

import tempfile

import numpy as np
import zarr

from streamgp import StreamGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (6000, 2)).astype(np.float32)
y = 50 + 10 * np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + rng.standard_normal(len(X))
path = tempfile.mkdtemp() + "/train.zarr"
group = zarr.open_group(path, mode="w")
group.create_array("X", data=X, chunks=(1500, 2))
group.create_array("y", data=y, chunks=(1500,))

model = StreamGPRegressor(n_active=150, memory_budget="64MiB", random_state=0).fit_stream(path)
score = model.evaluate_stream(path)
print(f"rmse {score.rmse:.2f} (noise 1.00), coverage {score.coverage()}")

mean, deviation = model.predict([[0.5, 0.0], [1.5, 1.0]], return_std=True)
for centre, width in zip(mean, 1.96 * deviation, strict=True):
    print(f"{centre:.1f} ± {width:.1f}")
