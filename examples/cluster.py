"""The same model on a Dask cluster and on threads, bit for bit."""

import tempfile
from pathlib import Path

import numpy as np
import zarr
from distributed import Client, LocalCluster

import streamgp
from streamgp.data.synthetic import write_store

path = Path(tempfile.mkdtemp()) / "train.zarr"
write_store(path, n_rows=20_000, seed=0, chunk_rows=2_500)
settings = {"n_active": 60, "memory_budget": "64MiB", "learn_hyperparameters": False, "random_state": 0}
here = streamgp.fit_stream(path, **settings)

# Any client will do: of a laptop as here, of a batch system, of a cloud. It is used as long as it is current.
local = {"processes": False, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
with LocalCluster(n_workers=2, **local) as cluster, Client(cluster):
    there = streamgp.fit_stream(path, **settings)
    print(f"error {there.evaluate_stream(path).error:.3f} on {len(cluster.workers)} workers")

rows = zarr.open_group(path, mode="r")["X"][:1000]
print("the same bits:", np.array_equal(here.predict_proba(rows), there.predict_proba(rows)))
