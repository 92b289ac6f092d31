"""The tutorial and the how-tos are true: their files do what the pages say, their commands print it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from . import guides

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for kind in ("tutorial", "how-to", "explanation") for page in (ROOT / "docs" / kind).glob("*.md"))
TUTORIAL = ROOT / "docs" / "tutorial" / "README.md"


EXAMPLE = ROOT / "examples" / "ssh_brute_force"


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("main", "other"):  # credentials: options that name them want a folder
        (tmp_path / name).mkdir()
    (tmp_path / "prices.csv").touch()  # an option that names it wants a file
    made = {} if page == TUTORIAL else guides.files(page)
    if page == TUTORIAL:  # it begins with a copy of the example
        shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    for name, text in made.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for block in guides.blocks(page):
        guides.try_block(block, tmp_path)
    if tests := [name for name in made if name.startswith("test_")]:
        guides.run(f"python -m pytest -q {' '.join(tests)}", tmp_path)


def test_the_tutorial_shows_the_example() -> None:
    shown = [block for block in guides.blocks(TUTORIAL) if block.language in guides.FILES]
    assert {"detector.py", "service.py", "test_detector.py"} <= {block.file for block in shown}
    for block in shown:
        excerpt = block.body.partition("\n")[2].strip()
        assert excerpt in (EXAMPLE / block.file).read_text(encoding="utf-8"), (
            f"{block.file} has no such lines: {excerpt}"
        )
