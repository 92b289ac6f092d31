"""The README and the documents are true: their programs run and print what the page says, their tables are complete.

1. The first line of a Python block names its file. All blocks of a page stand in one folder and are run in order, each
   as `python NAME`. A `text` block right below is exactly what the program prints.
2. Links to a heading lead to one. (That files exist is looked at by tests/house.)
3. What a page says of the packages' files, of the settings and of the public names is compared with the code.

docs/testing.md has a test of its own (tests/testing/test_docs.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import aiostorm
from aiostorm.topology import Config

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")))
RUN_ELSEWHERE = (
    # Their programs are tried by other tests, or are parts of programs, which tests/house compiles.
    "docs/cluster.md",
    "docs/explanation/",
    "docs/how-to/",
    "docs/notes/",
    "docs/reference/",
    "docs/reliability.md",
    "docs/spark.md",
    "docs/testing.md",
    "docs/tutorial/",
)
PROGRAM = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\w+\.py)\n")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NO_MODULES = (
    "component",  # a logger
    *("batch", "chunk", "part"),  # keys of an Arrow schema
    "json",  # a file in a checkpoint
)
IN_CHECKOUT = (ROOT / "actors").is_dir()


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def programs(page: str) -> Iterator[tuple[str, str, str | None]]:
    """(name, code, what it prints) of each Python block."""
    for found in PROGRAM.finditer(read(page)):
        named = NAME.match(found["code"])
        assert named, f"{page}: the first line of a Python block names its file: {found['code'][:60]!r}"
        yield named[1], found["code"], found["printed"]


def prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors that a forge makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in read(page) and not page.startswith(RUN_ELSEWHERE)]
)
def test_programs_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    found = list(programs(page))
    assert len(found) == read(page).count("```python")
    assert len({name for name, _, _ in found}) == len(found), "two blocks have one name"
    for name, code, _ in found:
        (tmp_path / name).write_text(code, encoding="utf-8")
    for name, _, printed in found:
        done = subprocess.run(
            [sys.executable, "-W", "error", name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{page}: {name}\n{done.stderr}"
        if printed is not None:
            assert done.stdout == printed, f"{page}: {name} prints something else"


@pytest.mark.parametrize("page", PAGES)
def test_links_to_headings_lead_to_one(page: str) -> None:
    for link in LINK.findall(prose(read(page))):
        path, _, anchor = link.partition("#")
        if anchor and "://" not in link:
            target = (ROOT / page).parent / path if path else ROOT / page
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page}: {link} leads to no heading"


def test_the_readmes_program_is_short() -> None:
    (_, code, _), *_ = programs("README.md")
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 27, "the first program is read at a glance"


def test_the_index_lists_every_document() -> None:
    index = read("docs/README.md")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    missing = sorted(page for page in pages if f"]({page})" not in index)
    assert not missing


@pytest.mark.skipif(not IN_CHECKOUT, reason="the tests are in a checkout")
@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_exist(page: str) -> None:
    there = {path.name for folder in ("tests", "examples") for path in (ROOT / folder).rglob("test_*.py")}
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    missing = sorted(set(re.findall(r"\btest_\w+\.py\b(?!::)", prose)) - there)
    assert not missing, f"{page} names tests that do not exist"


@pytest.mark.skipif(not IN_CHECKOUT, reason="the packages are in a checkout")
def test_the_architecture_names_every_package() -> None:
    page = read("docs/architecture.md").partition("## Packages")[2].partition("## Layers")[0]
    packages = sorted(path.name for path in (ROOT / "aiostorm").iterdir() if path.is_symlink())
    inner = (init.parent for package in packages for init in (ROOT / package).glob("*/__init__.py"))
    there = [*packages, "aiostorm/cli", *(folder.relative_to(ROOT).as_posix() for folder in inner)]
    named = re.findall(r"^\| \[([\w/]+)/\]\(\.\./\1\) \| \S", page, re.MULTILINE)
    assert sorted(named) == sorted(there), "docs/architecture.md: the table of packages has one line a package"


def test_the_settings_are_the_settings() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", read("docs/storm.md").partition("## Settings")[2], re.MULTILINE
    )
    listed = {name: (default.strip(), keys) for name, default, keys in rows}
    assert set(listed) == set(Config.model_fields), "docs/storm.md lists every setting, and no other"
    for name, field in Config.model_fields.items():
        default, keys = listed[name]
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        assert re.findall(r"`([\w.]+)`", keys) == extra["keys"], f"docs/storm.md, {name}: its keys"
        assert default == shown(field.default), f"docs/storm.md, {name}: its default"


def shown(value: object) -> str:
    """A default as the page writes it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ", ".join(f"{item:g}" for item in value)
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


@pytest.mark.parametrize("page", PAGES)
def test_public_names_exist(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"\baiostorm\.(\w+)", text):
        known = name in aiostorm.__all__ or find_spec(f"aiostorm.{name}") is not None or name in NO_MODULES
        assert known, f"{page}: there is no aiostorm.{name}"
