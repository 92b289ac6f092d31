"""The page looks as recorded: pixels where the machine is as the recorded one, boxes everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .browser import LAUNCH, REQUIRED, missing
from .pictures import FOLDER, MOST_DIFFERENT, SHOTS, difference, environment, name_of, shot
from .test_page import read_feed, replayed

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()) and not REQUIRED, reason=missing() or "there is a browser"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as browsers:
        launched = browsers.chromium.launch(**LAUNCH)
        yield launched
        launched.close()


@pytest.mark.parametrize(("feed", "path", "theme"), SHOTS)
def test_the_page_looks_as_recorded(browser: Any, tmp_path: Path, feed: str, path: str, theme: str) -> None:
    name = name_of(feed, path, theme)
    with replayed(read_feed(feed), tmp_path) as base:
        picture, layout = shot(browser, base, path, theme)
    recorded = json.loads((FOLDER / "layout.json").read_text("utf-8"))[name]
    assert layout == recorded, f"{name}: the boxes differ; if that is meant: python -m tests.ui.pictures"
    here = environment(browser)
    there = json.loads((FOLDER / "environment.json").read_text("utf-8"))
    if here != there:
        pytest.skip(f"the boxes are as recorded; pixels are not compared: recorded with {there}, and here is {here}")
    found = difference(browser, (FOLDER / f"{name}.png").read_bytes(), picture)
    (tmp_path / f"{name}.png").write_bytes(picture)
    assert found <= MOST_DIFFERENT, f"{found:.2%} of the pixels differ; now it is {tmp_path / name}.png"


def test_a_picture_differs_from_another(browser: Any) -> None:
    one, other = (FOLDER / f"{name_of(*SHOTS[i])}.png" for i in (0, 1))
    assert difference(browser, one.read_bytes(), one.read_bytes()) == 0
    assert difference(browser, one.read_bytes(), other.read_bytes()) > 0.5
