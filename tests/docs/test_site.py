"""The site builds without a warning, its navigation has every page, and links that leave docs/ lead somewhere in it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import aiostorm

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "docs" / "mkdocs_hooks.py"
REQUIRED = os.environ.get("AIOSTORM_DOCS") == "required"
"""Set by the gate's stage for the site: there a test that would be skipped fails."""

with_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None and not REQUIRED, reason="needs mkdocs: uv sync --group docs"
)
in_checkout = pytest.mark.skipif(not (ROOT / "mkdocs.yml").is_file(), reason="mkdocs.yml is in a checkout")


@in_checkout
def test_every_page_is_in_the_navigation() -> None:
    # As text: the file has tags of Python's, which a safe loader refuses.
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    named = re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    pages |= {f"project/{page.stem.lower()}.md" for page in ROOT.glob("*.md")}
    assert len(named) == len(set(named)), "a page is in the navigation twice"
    assert set(named) == pages


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mkdocs_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@with_mkdocs
@in_checkout
class TestHooks:
    def test_every_public_name_has_a_place(self, hooks: ModuleType) -> None:
        named = re.findall(r"^::: aiostorm\.(\w+)$", "".join(hooks.api_pages().values()), re.MULTILINE)
        assert sorted(named) == sorted(aiostorm.__all__)

    @pytest.mark.parametrize(
        ("page", "text", "becomes"),
        [
            ("storm.md", "[a](windows.md#b), [c](https://x.org/a.md), [d](#e)", None),
            ("storm.md", "[tasks.py](../tasks/tasks.py)", "`tasks/tasks.py`"),
            ("storm.md", "[how](../tasks/tasks.py#L3)", "how (`tasks/tasks.py`)"),
            ("storm.md", "[`Task`](../tasks/a.py) and `[x](../y.py)`", "`Task` (`tasks/a.py`) and `[x](../y.py)`"),
            ("storm.md", "[wc](../examples/word_count.py)", "[wc](examples/word_count.md)"),
            ("how-to/a.md", "[wc](../../examples/word_count.py)", "[wc](../examples/word_count.md)"),
            ("how-to/a.md", "[it](../../README.md#embed)", "[it](../project/readme.md#embed)"),
            ("project/readme.md", "[s](docs/storm.md#b) [l](LICENSE)", "[s](../storm.md#b) l (`LICENSE`)"),
            ("project/readme.md", "![p](docs/images/backpressure-slow.png)", "![p](../images/backpressure-slow.png)"),
            ("storm.md", "```\n[a](../b.py)\n```\n[b](../b.py)", "```\n[a](../b.py)\n```\nb (`b.py`)"),
        ],
    )
    def test_links(self, hooks: ModuleType, page: str, text: str, becomes: str | None) -> None:
        assert hooks.relinked(text, page) == (text if becomes is None else becomes)

    @pytest.mark.slow
    def test_the_site_builds(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "reference" / "api" / "topology" / "index.html").is_file()
