"""Reading a store by every codec pipeline that is installed: wall and CPU seconds of a pass that only reads.

    python -m benchmarks.limits.codecs --rows 1000000 --features 20

Pipelines are Zarr's own (the default, and the fused one of later versions) and that of ``zarrs``, if there is
one: ``pip install zarrs``. Each reads the same store, from the file cache, by the library's own pass; what it
reads is compared with what was written: ``is_right``.
"""

import importlib
import importlib.util
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from benchmarks.harness import Options, Row, Rows, Script, defaults
from benchmarks.limits.machine import CORES
from streamgp.data import open_rows
from streamgp.passes import Block, PassSettings, Visitor, run_pass

PIPELINES = {
    "batched": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}
CODECS = {"lz4": BloscCodec(cname="lz4"), "zstd": ZstdCodec(level=3), "none": None}


@dataclass(frozen=True)
class Total(Visitor[float]):
    """The sum of all features, or of none: a pass that only reads."""

    of_values: bool

    def visit(self, block: Block) -> float:
        """Of the block."""
        return float(block.features.sum(dtype=np.float64)) if self.of_values else 0.0

    def merge(self, earlier: float, later: float) -> float:
        """Of both."""
        return earlier + later


def is_installed(pipeline: str) -> bool:
    """Whether the class of a pipeline can be imported."""
    module, name = pipeline.rsplit(".", 1)
    if importlib.util.find_spec(module.split(".")[0]) is None:
        return False
    return hasattr(importlib.import_module(module), name)


def measured(path: Path, name: str, wanted: float, options: Options) -> Row:
    """The best of several passes by one pipeline."""
    settings = PassSettings(rows_per_block=2048, tasks_in_flight=CORES, progress=False)
    best = (np.inf, np.inf)
    with zarr.config.set({"codec_pipeline.path": PIPELINES[name]}):
        rows = open_rows(path, y=None)
        found = run_pass(rows, Total(of_values=True), settings)  # and the file cache is warm
        for _ in range(options.repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            run_pass(rows, Total(of_values=False), settings)
            best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    return {
        "cpu_seconds": round(best[0], 4),
        "seconds": round(best[1], 4),
        "is_right": bool(np.isclose(found, wanted, rtol=1e-9)),
    }


def rows(options: Options) -> Rows:
    features = np.random.default_rng(0).standard_normal((options.rows, options.features), np.float32).round(2)
    with tempfile.TemporaryDirectory() as folder:
        for codec in options.codecs:
            path = Path(folder) / f"{codec}.zarr"
            zarr.open_group(path, mode="w").create_array(
                "X",
                data=features,
                chunks=(options.chunk_rows, options.features),
                compressors=CODECS[codec],
            )
            for name in filter(lambda name: is_installed(PIPELINES[name]), PIPELINES):
                row = measured(path, name, float(features.sum(dtype=np.float64)), options)
                yield {"codec": codec, "pipeline": name, "rows": options.rows, **row}


OPTIONS = defaults(rows=1_000_000, features=20, chunk_rows=50_000, codecs=list(CODECS), repeats=5)
SCRIPT = Script("codecs", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
