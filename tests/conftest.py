"""Fixtures shared by all tests: stores on disk, schedulers, the shared data sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import settings

settings.register_profile("streamgp", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("streamgp")

SHARED_DATA = Path(os.environ.get("STREAMGP_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(20240229)


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., Path]:
    """Write X and y to a new Zarr group and return its path."""
    count = 0

    def make(
        X: np.ndarray,
        y: np.ndarray,
        chunk_rows: int = 100,
        zarr_format: int = 3,
        write_empty_chunks: bool = True,
        **options: object,
    ) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / f"store{count}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
        rows = max(1, min(chunk_rows, len(X)))
        chunks = (rows, X.shape[1])
        config = {"write_empty_chunks": write_empty_chunks}
        options = {"chunks": chunks, "config": config, **options}
        features = group.create_array("X", shape=X.shape, dtype=X.dtype, **options)
        features[:] = X
        strings = y.dtype.kind == "U"
        dtype = str if strings else y.dtype
        targets = group.create_array("y", shape=y.shape, dtype=dtype, chunks=(rows,), config=config)
        targets[:] = y
        return path

    return make


@pytest.fixture(scope="session")
def cluster_client() -> Iterator[object]:
    """A real scheduler and two worker processes that talk over TCP."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "cluster"])
def client(request: pytest.FixtureRequest) -> object:
    """Run a test on threads (None) and on a cluster."""
    return request.getfixturevalue("cluster_client") if request.param == "cluster" else None


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], dict[str, np.ndarray]]:
    """Load a shared data set by name, or skip where it is absent."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = SHARED_DATA / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"data set {name} is not here (set STREAMGP_DATA to its folder)")
        with np.load(path) as archive:
            return dict(archive)

    return load
