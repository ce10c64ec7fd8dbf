"""Whenever a training dies, its last complete checkpoint can be read."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from streamgp.errors import CheckpointError, ModelFileError, ParameterError
from streamgp.persistence import CheckpointFolder, check_identity, write_record
from streamgp.persistence.checkpoints import LATEST

IDENTITY = {"data": {"sha256": "ab12", "rows": 100}, "n_active": 500, "scales": [1.0, 2.0]}


def state(step: int, size: int = 10) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Header and arrays in which every value tells the step."""
    return {"value": step}, {"large": np.full(size, float(step)), "heads/0/small": np.array(step)}


def assert_consistent(checkpoint) -> None:
    assert checkpoint.header == {"value": checkpoint.step}
    assert checkpoint.arrays["heads/0/small"] == checkpoint.step
    assert checkpoint.arrays["large"].size > 0
    np.testing.assert_array_equal(checkpoint.arrays["large"], checkpoint.step)


def damage(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    file.write_bytes(whole)


@pytest.fixture
def folder(tmp_path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "run" / "checkpoints", IDENTITY)


def names(folder: CheckpointFolder) -> list[str]:
    return sorted(os.listdir(folder.path))


def test_nothing_yet(folder):
    assert folder.latest() is None
    folder.path.mkdir(parents=True)
    assert folder.latest() is None


def test_newest_steps_are_kept(folder):
    for step in (0, 3, 999_999, 1_000_000):
        folder.save(step, *state(step))
        found = folder.latest()
        assert found.step == step
        assert_consistent(found)
    assert names(folder) == [LATEST, "step-1000000.zarr.zip", "step-999999.zarr.zip"]


def test_keep_one(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=1)
    for step in range(3):
        folder.save(step, *state(step))
    assert names(folder) == [LATEST, "step-000002.zarr.zip"]


def test_saving_a_step_again_replaces_it(folder):
    folder.save(1, {"value": 0}, {})
    folder.save(1, *state(1))
    assert_consistent(folder.latest())


def test_leftovers_are_ignored_and_removed_by_the_next_save(folder):
    folder.save(1, *state(1))
    (folder.path / ".step-000002.zarr.zip.0badcafe.unfinished").write_bytes(b"half")
    (folder.path / ".LATEST.0badcafe.unfinished").write_text("step-0000")
    write_record(folder.path / "step-000002.zarr.zip", {"never": "pointed to"}, {}, kind="checkpoint")
    (folder.path / "notes.txt").write_text("of the user")
    assert folder.latest().step == 1
    folder.save(1, *state(1))
    assert names(folder) == [LATEST, "notes.txt", "step-000001.zarr.zip"]


def test_steps_without_a_pointer_were_never_completed(folder):
    folder.save(1, *state(1))
    (folder.path / LATEST).unlink()
    assert folder.latest() is None


def test_damaged_step_is_passed_over_for_the_one_before(folder, caplog):
    for step in (1, 2):
        folder.save(step, *state(step, size=1000))
    damage(folder.path / "step-000002.zarr.zip")
    assert folder.latest().step == 1
    assert "step-000002.zarr.zip" in caplog.text
    folder.save(2, *state(2))
    assert folder.latest().step == 2


def test_lost_step_is_passed_over_for_the_one_before(folder, caplog):
    for step in (1, 2):
        folder.save(step, *state(step))
    (folder.path / "step-000002.zarr.zip").unlink()
    assert folder.latest().step == 1
    assert "LATEST names step 2, and the file is gone" in caplog.text


def test_no_readable_step_is_an_error(folder):
    folder.save(1, *state(1, size=1000))
    damage(folder.path / "step-000001.zarr.zip")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .*step-000001.*remove the folder") as caught:
        folder.latest()
    assert isinstance(caught.value.__cause__, ModelFileError)
    (folder.path / "step-000001.zarr.zip").unlink()
    with pytest.raises(CheckpointError, match="LATEST names step 1, and the file is gone"):
        folder.latest()


def test_pointer_that_names_no_step_is_an_error(folder):
    folder.save(7, *state(7))
    (folder.path / LATEST).write_text("../../etc/passwd")
    with pytest.raises(
        CheckpointError, match=r"holds '../../etc/passwd'.*steps there: step-000007\.zarr\.zip"
    ):
        folder.latest()


def test_impossible_arguments_are_refused(tmp_path, folder):
    with pytest.raises(ParameterError, match="step=-1"):
        folder.save(-1, {}, {})
    with pytest.raises(ParameterError, match="keep=0"):
        CheckpointFolder(tmp_path, keep=0).save(1, {}, {})
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="is a file; give the name of a folder"):
        CheckpointFolder(tmp_path / "file").save(1, {}, {})
    with pytest.raises(CheckpointError, match="is a file; give the name of a folder"):
        CheckpointFolder(tmp_path / "file").latest()


def test_checkpoint_of_another_training_is_refused(folder):
    folder.save(1, *state(1))
    other = CheckpointFolder(folder.path, {**IDENTITY, "n_active": 600})
    with pytest.raises(CheckpointError, match=r"n_active: 500 then, 600 now\. Give another folder"):
        other.latest()
    assert CheckpointFolder(folder.path).latest().step == 1  # no identity: no comparison


def test_every_difference_is_named():
    check_identity(IDENTITY, {**IDENTITY, "scales": (1.0, 2.0)})
    current = {"data": {"sha256": "cd34", "rows": 100}, "scales": [1.0, 3.0], "kernel": "k" * 100}
    with pytest.raises(CheckpointError) as caught:
        check_identity(IDENTITY, current)
    assert str(caught.value) == (
        "the checkpoint is of another training: data.sha256: 'ab12' then, 'cd34' now; "
        "n_active: 500 then, absent now; scales[1]: 2.0 then, 3.0 now; "
        f"kernel: absent then, '{'k' * 56}... now. "
        "Give another folder as checkpoint=, or resume with the same data and settings"
    )


def test_many_differences_are_counted():
    with pytest.raises(CheckpointError, match=r"a\[11\]: 0 then, 1 now; and 8 more\. Give"):
        check_identity({"a": [0] * 20}, {"a": [1] * 20})
    with pytest.raises(CheckpointError, match=r"a: \[0\] then, \[0, 0\] now"):
        check_identity({"a": [0]}, {"a": [0, 0]})


class Dead(BaseException):
    """The process is gone: nothing it would do next happens."""


class Mortal:
    """Lets a number of file operations through; from then on, every one fails."""

    def __init__(self, patch: pytest.MonkeyPatch, operations: int) -> None:
        self.left = operations
        for owner, name in [
            (os, "replace"),
            (os, "fsync"),
            (os, "mkdir"),
            (os, "unlink"),
            (shutil, "rmtree"),
            (Path, "unlink"),
            (Path, "write_text"),
            (zipfile.ZipFile, "writestr"),
            (zipfile.ZipFile, "close"),
        ]:
            patch.setattr(owner, name, self.guard(getattr(owner, name)))

    def guard(self, operation):
        def guarded(*arguments, **options):
            self.left -= 1
            if self.left < 0:
                raise Dead
            return operation(*arguments, **options)

        return guarded


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("keep", [1, 2])
def test_death_at_any_file_operation_leaves_a_complete_checkpoint(tmp_path, keep, caplog):
    """Not even cleaning up is possible to the dead; with keep=1 there is no older step to fall back to."""
    folder = CheckpointFolder(tmp_path, IDENTITY, keep)
    folder.save(0, *state(0))
    finished, operations, step = False, 0, 1
    while not finished:
        with pytest.MonkeyPatch.context() as patch:
            Mortal(patch, operations)
            try:
                folder.save(step, *state(step))
                finished = True
            except Dead:
                pass
        found = folder.latest()
        assert found.step in ((step,) if finished else (step - 1, step))
        assert_consistent(found)
        folder.save(step, *state(step))
        assert len(names(folder)) == keep + 1  # the steps and the pointer: all leftovers are gone
        operations, step = operations + 1, step + 1
    assert operations > 8
    ours = [record for record in caplog.records if record.name.startswith("streamgp")]
    assert not ours  # no step had to be passed over


def save_for_ever(path: Path, started) -> None:
    folder = CheckpointFolder(path, IDENTITY)
    resumed = folder.latest()
    step = 0 if resumed is None else resumed.step + 1
    started.set()
    while True:
        folder.save(step, *state(step, size=200_000))
        step += 1


def test_killed_process_leaves_a_complete_checkpoint(folder, generator):
    """SIGKILL at random moments of repeated saves; each successor resumes where the killed one was."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    steps, patience = [], 0.2  # seconds in which a save should be done; more where the machine is slower
    while len(steps) < 12 or steps[-1] <= 0:
        started = context.Event()
        process = context.Process(target=save_for_ever, args=(folder.path, started), daemon=True)
        process.start()
        assert started.wait(120)
        time.sleep(generator.uniform(0.1, 1.0) * patience)
        process.kill()
        process.join()
        assert process.exitcode == -9
        found = folder.latest()
        if found is not None:
            assert_consistent(found)
        steps.append(-1 if found is None else found.step)
        patience *= 1.0 if steps[-1] > 0 else 1.5
    assert steps == sorted(steps)
    assert steps[-1] > 0
    folder.save(steps[-1] + 1, *state(steps[-1] + 1))
    assert len(names(folder)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_folder_is_free_again_though_a_child_of_its_process_lives_on(tmp_path):
    folder = CheckpointFolder(tmp_path / "c")
    reader, writer = os.pipe()
    with folder.held():
        child = os.fork()  # it has a copy of every open file, as the children of a pool have
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent closes its end
            os._exit(0)
    try:
        with folder.held():
            pass
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
