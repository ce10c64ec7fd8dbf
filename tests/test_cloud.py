"""A store behind a URL, on a server that speaks S3: the model of a folder, on threads and on workers."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from streamgp import StreamGPClassifier
from streamgp.kernels import RBF
from tests.test_faults import same_model

moto = pytest.importorskip("moto.server", reason="moto[server] imitates S3")
s3fs = pytest.importorskip("s3fs", reason="zarr reads s3:// URLs by s3fs")

QUICK = {"n_active": 15, "kernel": RBF(1.0, 1.0), "learn_hyperparameters": False, "random_state": 0}


@pytest.fixture
def bucket(monkeypatch):
    """A file system whose URLs begin with s3://rows/."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("rows")
    yield files
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_store_by_url_gives_the_model_of_a_folder(generator, make_store, bucket, tmp_path):
    from distributed import Client, LocalCluster

    X = generator.standard_normal((600, 3))
    folder = make_store(X, (X[:, 0] > 0).astype(np.int64), chunk_rows=60)
    bucket.put(str(folder), "rows/train.zarr", recursive=True)
    for settings in ({"selection": "ivm"}, {"selection": "kmeans", "inference": "fitc"}):
        wanted = StreamGPClassifier(**QUICK, **settings).fit_stream(folder)
        found = StreamGPClassifier(**QUICK, **settings).fit_stream("s3://rows/train.zarr")
        same_model(found, wanted)
        # Workers that are threads of this process have its environment, and read by URL on their own.
        with (
            LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            there = StreamGPClassifier(**QUICK, **settings, client=client).fit_stream("s3://rows/train.zarr")
        same_model(there.set_params(client=None), wanted)
    found.set_params(client=None).predict_stream("s3://rows/train.zarr", "s3://rows/out.zarr")
    bucket.get("rows/out.zarr", str(tmp_path / "out.zarr"), recursive=True)
    wanted.predict_stream(folder, tmp_path / "here.zarr")
    one, other = (zarr.open_group(tmp_path / name, mode="r") for name in ("out.zarr", "here.zarr"))
    for name, array in other.arrays():
        np.testing.assert_array_equal(one[name][:], array[:])
