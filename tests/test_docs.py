"""The documentation is built without a warning, and what it shows runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"(?P<before>[^\n]*)\n```(?P<language>\w+)\n(?P<code>.*?)\n```", re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .{10,} -->")
CODE = ("python", "sh")


def blocks(page: Path) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(page.read_text()) if block["language"] in CODE]


def is_marked(block: re.Match[str]) -> bool:
    return NOT_RUN.fullmatch(block["before"].strip()) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_every_block_runs_or_says_why_not(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        if not is_marked(block):
            assert block["language"] == "python", "blocks of other languages are marked <!-- not run: why -->"
            exec(compile(block["code"], str(page), "exec"), names)


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install streamgp[docs]")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: pip install streamgp[docs]")
    pytest.importorskip("material", reason="the theme is not installed: pip install streamgp[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    for page in PAGES:
        name = page.relative_to(ROOT / "docs").with_suffix("")
        folder = tmp_path / "site" / (name.parent if name.name == "index" else name)
        assert (folder / "index.html").exists(), f"{page} is not in the site"
    assert ":class:" not in (tmp_path / "site" / "api" / "index.html").read_text()


def test_every_page_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        assert str(page.relative_to(ROOT / "docs")) in listed
