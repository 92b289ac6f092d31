"""The files of the page, as a browser fetches them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from aiostorm.ui.assets import assets


def needed_by(path: str) -> set[str]:
    """The modules that a module needs, and those that they need."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        at = waiting.pop()
        for name in re.findall(r'^import .* from "(.+)";$', assets()[at].body.decode(), re.MULTILINE):
            parts: list[str] = []
            for part in (PurePosixPath(at).parent / name).parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            if (other := "/".join(parts)) not in found:
                found.add(other)
                waiting.append(other)
    return found


def test_every_module_that_the_page_begins_with_is_fetched_at_once() -> None:
    page = assets()[""].body.decode()
    named = re.findall(r'<link rel="modulepreload" href="(.+)">', page)
    assert len(named) > 10
    assert sorted(named) == sorted(needed_by("static/app.js")), "the list in index.html differs from the imports"
