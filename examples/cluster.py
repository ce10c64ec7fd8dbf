"""The same model on a Dask cluster: workers read the chunks, and the bits do not change."""

import tempfile
from pathlib import Path

import numpy as np
import zarr
from distributed import Client, LocalCluster

import streamgp
from streamgp.data.synthetic import write_store

folder = Path(tempfile.mkdtemp())  # on a real cluster: a folder or URL that every worker reaches
write_store(folder / "train.zarr", n_rows=8000, chunk_rows=2000)
method = {"n_active": 100, "selection": "kmeans", "inference": "fitc", "multiclass": "joint"}
settings = {**method, "memory_budget": "128MiB", "random_state": 0}

here = streamgp.fit_stream(folder / "train.zarr", **settings)
# Workers that are threads start at once; for real ones leave out processes=False, or give Client an address.
local = {"n_workers": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
with LocalCluster(**local) as cluster, Client(cluster) as client:
    print(client)
    there = streamgp.fit_stream(folder / "train.zarr", **settings)
    there.predict_stream(folder / "train.zarr", folder / "predictions.zarr")

rows = zarr.open_group(folder / "train.zarr", mode="r")["X"][:1000]
print("the same bits:", np.array_equal(here.predict_proba(rows), there.predict_proba(rows)))
