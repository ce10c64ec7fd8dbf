"""Checkpoints: numbered records in a folder, and a pointer to the newest that is replaced last."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.arrays import Array
from streamgp.errors import CheckpointError, ModelFileError, ParameterError
from streamgp.persistence.atomic import discard, flush, replace_text, unfinished_in
from streamgp.persistence.lock import LockedError, locked
from streamgp.persistence.plain import plain_json
from streamgp.persistence.records import Arrays, read_header, read_record, write_record

KIND = "checkpoint"
LATEST = "LATEST"
"""Name of the file that holds the name of the newest complete step."""
ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")
"""Files by which a folder is known as a Zarr store, of either format."""
_STEP = re.compile(r"step-(\d{6,})\.zarr\.zip")
_SHOWN_DIFFERENCES = 12
_SHOWN_CHARACTERS = 60

_logger = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """The state of a training after a step."""

    step: int
    header: dict[str, Any]
    arrays: dict[str, Array]


@dataclass(frozen=True, eq=False)
class CheckpointFolder:
    """A folder of checkpoints of one training.

    ``identity`` (JSON) says which training: data fingerprint, parameters, versions. It is stored with each
    step and compared by :meth:`latest`; None skips the comparison. ``keep`` steps are kept, so that there is
    one to go back to when the disk damages the newest. One process writes at a time.
    """

    path: Path
    identity: Mapping[str, Any] | None = None
    keep: int = 2

    def save(self, step: int, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Write a step, then point to it, then remove what is older; a crash leaves the last one readable.

        Step files above the pointer are from a run that died before it could point to them, or from a
        longer one before: they are removed too.
        """
        if step < 0 or self.keep < 1:
            raise ParameterError(f"step={step} and keep={self.keep} must be at least 0 and 1")
        folder = Path(self.path)
        if folder.exists() and not folder.is_dir():
            raise CheckpointError(f"{str(folder)!r} is a file; give the name of a folder for checkpoints")
        if not folder.exists():
            folder.mkdir(parents=True)
            flush(folder.parent)
        for leftover in unfinished_in(folder):
            discard(leftover)
        name = f"step-{step:06d}.zarr.zip"
        document = {"step": int(step), "identity": dict(self.identity or {}), "header": header}
        write_record(folder / name, document, arrays, kind=KIND)
        replace_text(folder / LATEST, f"{name}\n")
        steps = _steps(folder)
        kept = sorted(number for number in steps if number <= step)[-self.keep :]
        for number in steps.keys() - set(kept):
            discard(steps[number])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of the folder, which is made where it is not there yet."""
        folder = Path(self.path)
        if folder.is_file():
            raise CheckpointError(f"{str(folder)!r} is a file; give the name of a folder for checkpoints")
        if any((folder / name).exists() for name in ZARR_MARKS):
            raise CheckpointError(f"{str(folder)!r} is a Zarr store; give checkpoints a folder of their own")
        with ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(folder))
            except LockedError as error:
                raise CheckpointError(
                    f"the checkpoint folder {str(folder)!r} is in use by {error}: wait for it to end, or "
                    f"give another folder as checkpoint="
                ) from error
            except OSError as error:
                raise CheckpointError(f"checkpoints cannot be written to {str(folder)!r}: {error}") from error
            yield

    def stored_identity(self) -> dict[str, Any] | None:
        """The identity of the newest step that can be read, or None; no array is read."""
        folder = Path(self.path)
        steps = _steps(folder) if folder.is_dir() else {}
        for number in sorted(steps, reverse=True):
            try:
                found = read_header(steps[number], kind=KIND)["identity"]
            except (ModelFileError, KeyError, TypeError):
                continue
            return found if isinstance(found, dict) else None
        return None

    def latest(self) -> Checkpoint | None:
        """The newest complete checkpoint, or None where there is none yet.

        A damaged one is logged and passed over for the one before: training from there arrives at the same
        model. Raises :class:`CheckpointError` where none can be read, or where it is of another training.
        """
        folder = Path(self.path)
        pointed = _pointed_step(folder)
        if pointed is None:
            return None
        damage: ModelFileError | None = None
        steps = _steps(folder)
        gone = f"{LATEST} names step {pointed}, and the file is gone"
        if pointed not in steps:
            _logger.warning("checkpoint passed over: in %s, %s", folder, gone)
        for number in sorted((number for number in steps if number <= pointed), reverse=True):
            try:
                document, arrays = read_record(steps[number], kind=KIND)
            except ModelFileError as error:
                _logger.warning("checkpoint passed over: %s", error)
                damage = damage or error
                continue
            if self.identity is not None:
                check_identity(document["identity"], self.identity)
            return Checkpoint(document["step"], document["header"], arrays)
        raise CheckpointError(
            f"no checkpoint in {str(folder)!r} can be read "
            f"({damage or gone}); "
            f"remove the folder to start again, or restore it from a copy"
        ) from damage


def check_identity(stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Raise :class:`CheckpointError` with every difference between two identities, if there is any."""
    now = plain_json(current, "identity")
    differences = list(_differences("", plain_json(stored, "identity"), now))
    if differences:
        shown = "; ".join(differences[:_SHOWN_DIFFERENCES])
        more = len(differences) - _SHOWN_DIFFERENCES
        raise CheckpointError(
            f"the checkpoint is of another training: {shown}{f'; and {more} more' if more > 0 else ''}. "
            f"Give another folder as checkpoint=, or resume with the same data and settings"
        )


_ABSENT = object()


def _differences(name: str, then: Any, now: Any) -> Iterator[str]:
    """Each place where two JSON values differ, in words."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            inner = f"{name}.{key}" if name else key
            yield from _differences(inner, then.get(key, _ABSENT), now.get(key, _ABSENT))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for place, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from _differences(f"{name}[{place}]", before, after)
    elif then != now:
        yield f"{name}: {_shown(then)} then, {_shown(now)} now"


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _pointed_step(folder: Path) -> int | None:
    try:
        text = (folder / LATEST).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None  # no step was completed
    except NotADirectoryError as error:
        raise CheckpointError(
            f"{str(folder)!r} is a file; give the name of a folder for checkpoints"
        ) from error
    match = _STEP.fullmatch(text)
    if match is None:
        there = ", ".join(path.name for _, path in sorted(_steps(folder).items())) or "none"
        raise CheckpointError(
            f"{str(folder / LATEST)!r} holds {_shown(text)}, which is no name of a step; write the name "
            f"of the step to resume from into it (steps there: {there}), or remove it to start again"
        )
    return int(match[1])


def _steps(folder: Path) -> dict[int, Path]:
    matches = ((_STEP.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in matches if match}
