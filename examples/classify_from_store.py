"""Classify rows of a Zarr store that is never loaded as a whole: fit, evaluate, write predictions, save."""

import tempfile
from pathlib import Path

import zarr

import streamgp
from streamgp.data.synthetic import write_store

folder = Path(tempfile.mkdtemp())
write_store(folder / "train.zarr", n_rows=10_000, seed=0, chunk_rows=2500)
write_store(folder / "test.zarr", n_rows=5_000, seed=1)

model = streamgp.fit_stream(
    folder / "train.zarr",
    n_active=100,
    memory_budget="64MiB",
    random_state=0,
    checkpoint=folder / "checkpoint",  # a killed run continues here
)
score = model.evaluate_stream(folder / "test.zarr")
print(f"error {score.error:.3f}, log loss {score.log_loss:.3f} nats, kernel {model.kernel_}")
print("reject a fifth of the rows:", score.rejection()[score.rejection()[:, 0] <= 0.2][-1])

model.predict_stream(folder / "test.zarr", folder / "predictions.zarr")
print(zarr.open_group(folder / "predictions.zarr")["probability"][:3])

model.save(folder / "model.zip")
again = streamgp.load(folder / "model.zip")
print(again.predict(zarr.open_group(folder / "test.zarr")["X"][:5]))
