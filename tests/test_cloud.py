"""A store behind a URL, on a server that speaks S3: the model of a folder, on threads and on workers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MISSING = [name for name in ("moto", "flask", "boto3", "obstore") if importlib.util.find_spec(name) is None]

IN_THE_CLOUD = """
import os, sys
from pathlib import Path
import boto3
import numpy as np, zarr
from distributed import Client, LocalCluster
from moto.server import ThreadedMotoServer
from streamgp import StreamGPClassifier
from streamgp.data.remote import opened_place
from streamgp.kernels import RBF
from tests.test_faults import same_model

folder, place = sys.argv[1:]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
os.environ["AWS_ENDPOINT_URL"] = "http://{}:{}".format(*server.get_host_and_port())
os.environ |= {"AWS_ACCESS_KEY_ID": "anybody", "AWS_SECRET_ACCESS_KEY": "anything"}
os.environ |= {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
bucket = boto3.client("s3")
bucket.create_bucket(Bucket="rows")
for path in (path for path in Path(folder).rglob("*") if path.is_file()):
    bucket.upload_file(str(path), "rows", f"train.zarr/{path.relative_to(folder)}")
url = "s3://rows/train.zarr"
quick = {"n_active": 15, "kernel": RBF(1.0, 1.0), "learn_hyperparameters": False, "random_state": 0}
for settings in ({"selection": "ivm"}, {"selection": "kmeans", "inference": "fitc"}):
    wanted = StreamGPClassifier(**quick, **settings).fit_stream(folder)
    same_model(StreamGPClassifier(**quick, **settings).fit_stream(url), wanted)
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        there = StreamGPClassifier(**quick, **settings, client=client).fit_stream(url)
    same_model(there, wanted)
wanted.predict_stream(url, "s3://rows/out.zarr")
wanted.predict_stream(folder, place + "/here.zarr")
one = zarr.open_group(opened_place("s3://rows/out.zarr", read_only=True), mode="r")
other = zarr.open_group(f"{place}/here.zarr", mode="r")
for name, array in other.arrays():
    np.testing.assert_array_equal(one[name][:], array[:])
print("the same")
server.stop()
"""


@pytest.mark.skipif(
    bool(MISSING),
    reason=f"no {' and no '.join(MISSING)}: pip install 'streamgp[s3test]' (an imitation of S3)",
)
def test_a_store_by_url_gives_the_model_of_a_folder(generator, make_store, tmp_path):
    X = generator.standard_normal((600, 3))
    folder = make_store(X, (X[:, 0] > 0).astype(np.int64), chunk_rows=60)
    # In a process of its own: the server and its clients leave connections open, which warnings would tell.
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_CLOUD, str(folder), str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the same" in done.stdout
