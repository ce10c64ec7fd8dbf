"""Inference by local blocks: sweeps until left-out densities stay, then the sites that predictions use."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from streamgp.errors import NotConvergedWarning
from streamgp.settings import Local
from streamgp.training.local import LocalSweeps, room_for_blocks, sweep_blocks
from streamgp.training.local_sites import write_final_sites
from streamgp.training.problem import Problem
from streamgp.training.stage import Draft, Save, Stage


def sweep_local_blocks(settings: Local) -> Stage:
    """One sweep a step, until the left-out log densities of all heads have settled."""

    def step(
        problem: Problem, draft: Draft, own: dict[str, Any], save: Save
    ) -> tuple[Draft, dict[str, Any] | None, dict[str, Any]]:
        before: LocalSweeps = draft.sweeps
        if before.n_sweeps == 0:
            problem.held_blocks.restart(room_for_blocks(problem, draft, before.table))
        sweeps = sweep_blocks(problem, draft, before, settings.tolerance)
        ended = sweeps.converged or sweeps.n_sweeps >= settings.most_sweeps or problem.is_late()
        if ended:
            problem.held_blocks.restart(0)
            write_final_sites(problem, draft, sweeps)
        if ended and not sweeps.converged:
            _warn_of_no_convergence(sweeps, settings.tolerance)
        told = {
            "sweep": sweeps.n_sweeps,
            "residual": max(head.residual for head in sweeps.progress),
            "converged": sweeps.converged,
            "skipped": [head.skipped for head in sweeps.progress],
            "heads": sum(not head.converged for head in before.progress),
            "rows": problem.n_rows,
            "log_evidence": sum(sweeps.evidence),
        }
        if any(sweeps.left_out):  # Gaussian noise needs no cavities in its one sweep
            told["left_out_log_density"] = sum(sweeps.left_out)
        return replace(draft, sweeps=sweeps), None if ended else own, told

    return Stage("infer: local", lambda problem, draft: {}, step)


def _warn_of_no_convergence(sweeps: LocalSweeps, tolerance: float) -> None:
    far = sum(not head.converged for head in sweeps.progress)
    warnings.warn(
        f"the sweeps over blocks did not converge for {far} of {len(sweeps.progress)} latent functions: "
        f"after {sweeps.n_sweeps} sweeps left-out log densities still change by more than {tolerance:.0e}. "
        f"Give more time, or a kernel of smaller variance.",
        NotConvergedWarning,
        stacklevel=3,
    )
