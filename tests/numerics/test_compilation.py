from __future__ import annotations

import os
import subprocess
import sys

import numba
import pytest

from streamgp.numerics import compilation


@pytest.fixture
def fresh_folder():
    compilation.cache_folder.cache_clear()
    yield
    compilation.cache_folder.cache_clear()


def test_other_sources_have_another_folder(tmp_path, monkeypatch, fresh_folder):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "_SOURCES", tmp_path)
    (tmp_path / "a.py").write_text("one")
    first = compilation.cache_folder()
    compilation.cache_folder.cache_clear()
    (tmp_path / "a.py").write_text("two")
    assert first is not None
    assert first.is_dir()
    assert compilation.cache_folder() != first


def test_an_unwritable_folder_means_no_cache(tmp_path, monkeypatch, fresh_folder):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked))
    assert compilation.cache_folder() is None
    assert compilation.is_cold()
    assert compilation.compiled(lambda x: x + 1)(1) == 2


def test_decorating_leaves_numba_as_it_was():
    before = numba.config.CACHE_DIR
    compilation.compiled(reassociate=False)(lambda x: x)
    assert before == numba.config.CACHE_DIR


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is the run without compilation")
def test_compiled_bodies_are_plain_python_too():
    """Without Numba the same tests pass: bodies can be debugged, and a miscompilation would show."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "tests/numerics", "-p", "no:cacheprovider"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
