"""The report of a run: what it contains, that it is only a document, and when it is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, LocalCluster, RunningTopology, TopologyBuilder, bolt, running, spout
from aiostorm.backpressure import Backpressure, SpoutPacing
from aiostorm.cluster import ReportError
from aiostorm.cluster.report.charts import MOST_LINES, ceiling, chart
from aiostorm.cluster.report.samples import MOST, Samples, quantiles, rates, values
from aiostorm.metrics import ComponentMetrics, TaskMetrics, TopologyMetrics

HOSTILE = "<script>alert('1')</script>"


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    for n in range(100):
        yield n
        await asyncio.sleep(0.1)


@bolt
def check(n: int) -> None:
    if n % 10 == 9:
        raise ValueError(f"{HOSTILE} {n}")


def builder() -> TopologyBuilder:
    found = TopologyBuilder()
    found.set_spout("numbers", numbers, max_retries=0)
    found.set_bolt("check", check, 2).shuffle_grouping("numbers")
    return found


class _Reader(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def is_only_a_document(html: str) -> bool:
    """It has no script, no handler, and nothing to be loaded."""
    tags = _Reader(html).tags
    names = {name for name, _ in tags}
    attributes = {name for _, attrs in tags for name in attrs}
    return not names & {"script", "img", "iframe", "link", "object"} and not any(
        name.startswith("on") or name in ("src", "href", "xlink:href") for name in attributes
    )


async def test_a_block_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    config = Config(max_spout_pending=50, **{"db.password": "hunter2", "db.url": "x://me:hunter2@host"})
    async with running(builder().create_topology("orders"), config) as topology, topology.report(path):
        await topology.wait_finished()
    html = path.read_text("utf-8")
    assert is_only_a_document(html)
    for text in ("orders: report of a run", "acked", "max_spout_pending", "Tuples a second"):
        assert text in html
    assert "10 × check, execute: ValueError: &lt;script&gt;" in html
    assert "hunter2" not in html
    assert html.count("<polyline") >= 2
    assert path.stat().st_mode & 0o777 == 0o600


async def test_without_a_recording_it_says_so(tmp_path: Path) -> None:
    async with running(builder().create_topology("orders")) as topology:
        await asyncio.sleep(2)
        await topology.report(tmp_path / "now.html")
        html = (tmp_path / "now.html").read_text("utf-8")
        assert "Nothing was recorded" in html
        assert "<polyline" not in html
        assert "ACTIVE" in html


async def test_it_is_written_when_the_block_raises_and_when_the_topology_ends_in_it(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        topology = await cluster.submit("orders", builder().create_topology())
        with pytest.raises(KeyError):
            async with topology.report(tmp_path / "raised.html"):
                raise KeyError("mine")
        async with topology.report(tmp_path / "ended.html"):
            await asyncio.sleep(3)
            await topology.kill(0)
            await asyncio.sleep(5)
        assert (tmp_path / "raised.html").exists()
        assert "KILLED" in (tmp_path / "ended.html").read_text("utf-8")


async def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    async with running(builder().create_topology("orders")) as topology:
        with pytest.raises(ReportError, match=r"no report: .*run.html cannot be written: No such file"):
            await topology.report(tmp_path / "no" / "run.html")
        for path, problem in ((tmp_path / "no" / "run.html", "there is no folder"), (tmp_path, "is a folder")):
            with pytest.raises(ReportError, match=problem):
                async with topology.report(path):
                    raise AssertionError("nothing is recorded in vain")
        folder = tmp_path / "for a while"
        folder.mkdir()
        recording = topology.report(folder / "run.html")
        await recording.__aenter__()
        folder.rmdir()
        error = KeyError("it is this that counts")
        await recording.__aexit__(KeyError, error, None)


async def test_a_notebook_gets_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(builder().create_topology("orders")) as topology:
        await asyncio.sleep(2)
        html = topology._repr_html_()
        assert is_only_a_document(html)
        assert "<strong>orders</strong>" in html
        assert "<dd>ACTIVE</dd>" in html
        monkeypatch.setattr(topology._run, "page_url", lambda: 'http://x/"><script>')
        assert 'href="http://x/&quot;&gt;&lt;script&gt;"' in topology._repr_html_()
        monkeypatch.setattr(topology._run, "page_url", lambda: "javascript:alert(1)")
        assert "href" not in topology._repr_html_()


async def test_hostile_names_are_text(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        topology: RunningTopology = await cluster.submit("orders", builder().create_topology())
        topology.name = HOSTILE
        await topology.report(tmp_path / "a.html")
        html = (tmp_path / "a.html").read_text("utf-8")
        assert is_only_a_document(html)
        assert "alert(&#x27;1&#x27;)" in html
        assert is_only_a_document(topology._repr_html_())


# -- samples and charts ------------------------------------------------------------------------------------------------


def metrics(emitted: int) -> TopologyMetrics:
    return TopologyMetrics([ComponentMetrics("s", "spout", (TaskMetrics(1, emitted=emitted),))])


@given(st.integers(1, 3 * MOST))
def test_samples_have_an_end_and_lose_no_count(count: int) -> None:
    samples = Samples(1.0)
    for i in range(count):
        samples.take(float(i), metrics(7 * i), Backpressure(spouts=(SpoutPacing("s", 1, 0.5, 0.0, ()),)))
    kept = samples.kept
    assert len(kept) <= MOST
    assert all(rate == pytest.approx(7.0) for _, rate in rates(kept, "s"))
    assert {wait for _, wait in values(kept, "s", "wait_s")} == {0.5}
    assert quantiles(kept, "s", 0.99) == []
    samples.take(0.0, metrics(0), Backpressure())
    assert samples.kept == kept


@given(st.floats(1e-9, 1e12))
def test_the_scale_reaches_the_highest_value(value: float) -> None:
    assert value <= ceiling(value) * (1 + 1e-9)
    assert ceiling(value) <= value * 2.6


def test_a_chart_shows_the_highest_lines() -> None:
    lines = {f"c{i}": [(0.0, float(i)), (1.0, float(i))] for i in range(MOST_LINES + 3)}
    html = chart("t", lines, str)
    assert html.count("<polyline") == MOST_LINES
    assert "and 2 more" in html, "c0 is nothing but zero"
    assert chart("t", {"a": [(0.0, 0.0)], "b": []}, str) == ""
    points = re.findall(r"([\d.]+),([\d.]+)", html)
    assert points
    assert all(0 <= float(x) <= 720 and 0 <= float(y) <= 180 for x, y in points)
