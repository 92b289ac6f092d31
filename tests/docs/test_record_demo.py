"""Programs that work make the pictures of terminals: of the demo, without anything from another server."""

from __future__ import annotations

import re
from pathlib import Path

from . import record_demo, record_top

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURE = IMAGES / "aiostorm-demo.svg"
TOP = IMAGES / "aiostorm-top.svg"


def text_of(svg: str) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)).replace("&#160;", " ")


async def test_the_recorder_draws_the_table_of_the_demo() -> None:
    svg = await record_demo.record(runs_s=5.0)
    assert svg.startswith("<svg")
    for said in ("demo-shop", "orders", "payments", "executed/s", "mailbox", "pending"):
        assert said in text_of(svg)
    assert not re.findall(r"(?:url\(|src=|href=)[\"']?https?:", svg)


def test_the_picture_is_one_of_it() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert "paced" in text_of(svg), "record it again: the paced spout is what it is to show"
    assert not re.findall(r"(?:url\(|src=|href=)[\"']?https?:", svg)


async def test_the_recorder_draws_what_top_shows_of_the_demo() -> None:
    svg = await record_top.record(runs_s=5.0)
    for said in ("aiostorm top", "demo-shop", "ACTIVE", "tuples/s", "payments", "busy", "p99"):
        assert said in text_of(svg)
    assert not re.findall(r"(?:url\(|src=|href=)[\"']?https?:", svg)


def test_the_picture_of_top_is_one_of_it() -> None:
    svg = TOP.read_text(encoding="utf-8")
    assert "cannot keep up" in text_of(svg), "record it again: why the spout waits is what it is to show"
    assert not re.findall(r"(?:url\(|src=|href=)[\"']?https?:", svg)
