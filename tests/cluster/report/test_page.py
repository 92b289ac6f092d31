"""Page: what each part of a report says."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from aiostorm import Config, LocalCluster
from aiostorm.cluster.report.page import (
    MOST_CHARTED,
    MOST_ERRORS,
    MOST_TRACEBACK_CHARS,
    _environment,
    _errors,
    _settings,
    _summary,
    _timelines,
    html,
)
from aiostorm.cluster.report.samples import Point, Sample
from aiostorm.metrics import Histogram, SnapshotMetrics, TaskMetrics
from aiostorm.runtime import ProcessMetrics
from aiostorm.tasks import ErrorReport

from .parts import Shown, metrics, shown, taking, topology


async def test_the_summary_adds_up_what_components_have_counted() -> None:
    one = TaskMetrics(1, emitted=1000, acked=900, failed=30, replayed=20, dead_lettered=2, pending=6, errors=1)
    other = TaskMetrics(2, emitted=500, acked=100, failed=1, replayed=3, dead_lettered=4, pending=1)
    remote = await shown(
        config={"guarantee": "at-most-once"},
        state="INACTIVE",
        degraded="worker-2 does not start",
        started_s=0.0,
        metrics=metrics(
            numbers=[one, other],
            half=[TaskMetrics(3, emitted=7, acked=7, failed=7, replayed=7, dead_lettered=7, late=5, errors=3)],
            sink=[TaskMetrics(5, late=4)],
        ),
    )
    assert Shown(_summary(remote, 100.0, 86_400.0)).facts == {
        "state": "INACTIVE",
        "degraded": "worker-2 does not start",
        "started": "1970-01-01 00:00:00 UTC",
        "written": "1970-01-02 00:00:00 UTC",
        "length": "100 s",
        "guarantee": "at-most-once",
        "emitted by spouts": "1,500",
        "acked": "1,000, 10 a second",
        "failed": "31",
        "replayed": "23",
        "dead-lettered": "6",
        "pending": "7",
        "late rows": "9",
        "errors": "4",
    }


async def test_the_summary_has_the_snapshots_of_exactly_once() -> None:
    remote = await shown(snapshots=SnapshotMetrics(7, taken=1234, failed=2, rolled_back=3))
    assert Shown(_summary(remote, 1.0, 1.0)).facts["snapshots"] == "1,234 taken, 2 failed, rolled back 3 times"


# -- timelines ---------------------------------------------------------------------------------------------------------


def sample(at_s: float, **points: Any) -> Sample:
    return Sample(at_s, {name: Point(*point) for name, point in points.items()})


def test_timelines_need_two_samples() -> None:
    one = sample(0.0, a=(5, 0.5, 0.25, Histogram()))
    assert "Nothing was recorded" in _timelines([one], 1.0)
    assert "Nothing was recorded" in _timelines([], 1.0)
    two = sample(2.0, a=(1005, 0.25, 0.002, taking(0.001, 9, 1)))
    drawn = _timelines([one, two], 2.5)
    assert drawn.startswith("<p>A point each 2.5 s.</p>")
    found = re.findall(r"<figcaption>(.*?)</figcaption>.*?\(at most (.*?)\)", drawn)
    late = taking(0.001, 9, 1).quantile(0.99)
    assert found == [
        ("Tuples a second", "500"),
        ("Fullest mailbox", "50%"),
        ("Wait of a paced spout for each tuple", "250 ms"),
        ("99 % within: from emit to ack of a spout, from mailbox to end of a bolt", f"{late * 1e3:.3g} ms"),
    ]


def test_timelines_are_of_the_components_that_are_there_at_the_end() -> None:
    one, two = (0, 0.5, 0.0, Histogram()), (9, 0.5, 0.0, Histogram())
    samples = [sample(0.0, left=one), sample(1.0, left=two), sample(2.0, left=two, new=one), sample(3.0, new=two)]
    drawn = _timelines(samples, 1.0)
    assert re.findall(r"</span>(\w+) \(at most (.*?)\)", drawn) == [("new", "9"), ("new", "50%")]


def test_timelines_have_an_end() -> None:
    names = [f"c{i:03}" for i in range(MOST_CHARTED + 1)]
    samples = [sample(at_s, **{n: (0, i + 1.0, 0.0, Histogram()) for i, n in enumerate(names)}) for at_s in (0.0, 1.0)]
    drawn = _timelines(samples, 1.0)
    assert names[-2] in drawn
    assert names[-1] not in drawn


# -- errors ------------------------------------------------------------------------------------------------------------


def error(text: str, trace: str = "", component: str = "split", where: str = "execute") -> ErrorReport:
    return ErrorReport("t", component, 1, where, text, trace, None, 0.0)


def summaries(drawn: str) -> list[str]:
    return re.findall(r"<summary>(.*?)</summary>", drawn)


def test_alike_errors_are_together_the_newest_first_with_the_last_traceback() -> None:
    drawn = _errors(
        [
            error("ValueError: 1 at 0x7fa1", "first"),
            error("ValueError: 1 at 0x7fa1", "in prepare", where="prepare"),
            error("ValueError: 1 at 0x7fa1", "elsewhere", component="count"),
            error("ValueError: 22 at 0xBEEF", "line 1\n<line 2>\x1b[2J"),
        ]
    )
    assert summaries(drawn) == [
        "2 × split, execute: ValueError: 22 at 0xBEEF",
        "1 × count, execute: ValueError: 1 at 0x7fa1",
        "1 × split, prepare: ValueError: 1 at 0x7fa1",
    ]
    traces = re.findall(r"<pre>(.*?)</pre>", drawn, re.DOTALL)
    assert traces == ["line 1\n&lt;line 2&gt;\\x1b[2J", "elsewhere", "in prepare"]
    assert drawn.startswith("<p>The last 4 errors in user code.</p>")
    assert "other kinds" not in drawn
    assert _errors([]) == "<p>None.</p>"


def test_errors_have_an_end() -> None:
    kinds = [error("x" * (i + 1)) for i in range(MOST_ERRORS)]
    assert len(summaries(_errors(kinds))) == MOST_ERRORS
    assert "other kinds" not in _errors(kinds)
    assert _errors([*kinds, error("y")]).endswith("<p>and 1 other kinds</p>")
    more = _errors([*kinds, error("y"), error("z")])
    assert len(summaries(more)) == MOST_ERRORS
    assert more.endswith("<p>and 2 other kinds</p>")


def test_long_errors_are_cut_a_traceback_at_its_begin() -> None:
    long = "e" * MOST_TRACEBACK_CHARS
    drawn = _errors([error(long + "a", "ab" + "c" * (MOST_TRACEBACK_CHARS - 1)), error(long + "b", "x")])
    [first] = summaries(drawn)
    assert first == f"2 × split, execute: {'e' * 483}…", "500 characters after the count"
    [trace] = re.findall(r"<pre>(.*?)</pre>", _errors([error("", "ab" + "c" * (MOST_TRACEBACK_CHARS - 1))]))
    assert trace == "b" + "c" * (MOST_TRACEBACK_CHARS - 1)
    assert len(summaries(_errors([error(long[1:] + "a"), error(long[1:] + "b")]))) == 2


# -- settings, the environment, and the whole --------------------------------------------------------------------------


def test_settings_that_differ_are_shown_with_their_sources() -> None:
    config = Config.load(None, {}, ["max_spout_pending=50"], Config(workers=1, **{"db.password": "c4nary", "a": 1}))
    shown_ = Shown(_settings(config))
    assert shown_.rows == [
        ["setting", "value", "default", "source"],
        ["max_spout_pending", "50", "null", "-c"],
        ["db.password", "***", "", "keyword"],
        ["a", "1", "", "keyword"],
    ]
    assert "Settings that differ from their defaults" in shown_.texts
    assert _settings(Config()) == "<p>All settings have their defaults.</p>"


async def test_the_environment_names_the_processes() -> None:
    remote = await shown(
        processes={"local": ProcessMetrics(12345, 1.26, 123_456_789), "w<1>": ProcessMetrics(7, 0.0, None)}
    )
    found = Shown(_environment(remote))
    assert found.rows == [
        ["process", "pid", "processor time", "memory"],
        ["local", "12345", "1.3 s", "123 MB"],
        ["w<1>", "7", "0.0 s", ""],
    ]
    assert set(found.facts) == {"aiostorm", "Python", "system", "event loop"}
    assert found.facts["event loop"] == ("uvloop" if "uvloop" in sys.modules else "asyncio")


async def test_a_run_that_is_over_took_until_its_last_sample() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology())
        began_s = running.started_s
        samples = [Sample(began_s + at_s, {}) for at_s in (1.0, 30.0, 60.0)]

        def length(samples: list[Sample], at_s: float) -> str:
            return Shown(html(running, samples, 1.0, began_s + at_s)).facts["length"]

        assert length(samples, 100.0) == "100 s", "it goes on"
        assert length([], -5.0) == "0 µs", "the clock was set back"
        await running.kill(0)
        assert length(samples, 100.0) == "60 s"
        assert length([], 100.0) == "100 s"
        document = html(running, samples, 1.0, began_s)
    heads = re.findall(r"<h2>(.*?)</h2>", document)
    assert heads == ["Graph", "Components", "Timelines", "Errors", "Settings", "Environment"]
    assert document.count("<title>job: report of a run</title>") == 1
    assert document.endswith("</body></html>\n")


@pytest.mark.parametrize("chars", [300, 301])
async def test_a_title_is_cut(chars: int) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology())
        running.name = "n" * (chars - len(": report of a run"))
        document = html(running, [], 1.0, 0.0)
        await running.kill(0)
    [head] = re.findall(r"<h1>(.*?)</h1>", document)
    assert len(head) == 300
    assert head.endswith("…") == (chars > 300)
    assert f"<title>{head}</title>" in document
