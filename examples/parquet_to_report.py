"""From a Parquet file with strings, dates and gaps to a scored model and a page about it."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import streamgp

folder, rng, n = Path(tempfile.mkdtemp()), np.random.default_rng(0), 3000
trips = pd.DataFrame(
    {
        "departure": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 180 * 24 * 60, n), "min"),
        "distance": np.where(rng.random(n) < 0.02, np.nan, rng.gamma(2.0, 300.0, n)),
        "town": rng.choice(["Oslo", "Rome", "Lima", None], n),
    }
)
rush = trips["departure"].dt.hour.isin([7, 8, 17, 18])
chance = 0.1 + 0.5 * rush + 0.2 * (trips["town"] == "Rome") + 0.1 * (trips["distance"] > 900)
trips["late"] = np.where(rng.random(n) < chance, "late", "in time")
trips.to_parquet(folder / "trips.parquet")

print(streamgp.ingest(folder / "trips.parquet", folder / "trips.zarr", target="late", test="20%"))
model = streamgp.fit_stream(folder / "trips.zarr", random_state=0, memory_budget="256MiB")
print(model.recipe_)
print(model.evaluate_stream(folder / "trips.zarr" / "test"))

new = trips.drop(columns="late").head(3)  # raw columns: the model knows what was done to them
print(new.assign(p_late=model.predict_proba(new)[:, list(model.classes_).index("late")]))
model.report(folder / "report.html", folder / "trips.zarr" / "test")
print("written:", folder / "report.html")
