"""Every benchmark runs, in its smallest size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = {
    "benchmarks.limits.ep_robustness": "--problems 8",
    "benchmarks.limits.pass_throughput": "--rows 3000 --features 5 --active 20 --repeats 1",
    "benchmarks.limits.fitc_convergence": "--synthetic --sets crabs mnist9 --inducing 10",
    "benchmarks.limits.fitc_skipping": "--synthetic --rows 300 --inducing 16",
    "benchmarks.limits.fitc_sweep": "--rows 64 --features 3 --inducing 16 --repeats 1",
    "benchmarks.limits.likelihood_sites": "--rows 40 --classes 3 --repeats 1",
    "benchmarks.limits.kernel_block": "--rows 64 --features 3 --active 16 --repeats 1",
    "benchmarks.papers.fitc_inducing": "--synthetic --sets usps4 uci_kin40k --inducing 24",
    "benchmarks.papers.fitc_table1": "--synthetic --sets titanic --splits 1",
    "benchmarks.papers.fitc_targets": "--synthetic --sets uci_kin40k mnist9 --inducing 10",
    "benchmarks.papers.fitc_usps4": "--synthetic --inducing 10",
    "benchmarks.papers.fitc_xor": "--rows 40 --draws 1 --curves fitc",
    "benchmarks.papers.ivm2003_table1": "--synthetic --digits 9 --scale-active 0.01",
    "benchmarks.papers.ivm2006_pumadyn": "--synthetic --active 200 --splits 0",
    "benchmarks.papers.ivm2006_table1": "--synthetic --digits 4 --active 50",
    "benchmarks.papers.ivm2006_table2": "--synthetic --digits 9 --scale-active 0.01 --entries 8000",
    "benchmarks.papers.passgp_evidence": "--synthetic --p-inc 0.6 --most-active 200 --accurate --full",
    "benchmarks.papers.passgp_ijcnn": "--synthetic --active 20 --peers",
    "benchmarks.papers.passgp_initial": "--synthetic --active 20 --seeds 0 1",
    "benchmarks.papers.passgp_mnist": "--synthetic --active 30",
    "benchmarks.papers.passgp_representer": "--synthetic --digits 3 --active 60",
    "benchmarks.papers.passgp_usps": "--synthetic --active 30 --most-active 40 --methods pass fpass ivm+ep",
    "benchmarks.papers.reject_curve": "--synthetic --active 30",
    "benchmarks.papers.streaming_greedy": "--synthetic --active 40 --seeds 0 1",
    "benchmarks.scale.pass_sweep": "--rows 40000 --features 5 --active 20 --memory-budget 32MiB",
    "benchmarks.scale.ivm_scaling": "--rows 2000 4000 --active 20 40 --features 5 --test-rows 500",
}


def test_every_script_has_a_smoke_run():
    scripts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "benchmarks").rglob("*.py")
        if "__main__" in path.read_text()
    }
    assert scripts == set(SMOKE)


@pytest.mark.parametrize("script", SMOKE)
def test_script_prints_json_lines(script):
    command = [sys.executable, "-m", script, *SMOKE[script].split(), "--no-save"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    assert all(row["benchmark"] == script.rpartition(".")[2] and row["commit"] for row in rows)
