"""The last log records: what is kept, how much of it, and that nothing else changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from aiostorm.ui.logs import KEPT, MOST_CHARS, LogRing, levels

log = logging.getLogger("aiostorm.tests.page")


@pytest.fixture
def ring() -> Iterator[LogRing]:
    found = LogRing()
    found.attach(all_loggers=False)
    yield found
    found.detach()


def test_records_are_kept_as_text(ring: LogRing):
    log.warning("%s is %d", "a", 3)
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("it failed")
    first, second = ring.since(0)
    assert (first.level, first.logger, first.text) == ("WARNING", "aiostorm.tests.page", "a is 3")
    assert (second.number, second.level) == (2, "ERROR")
    assert second.text.startswith("it failed\nTraceback")
    assert second.text.endswith("ValueError: wrong")
    assert ring.since(1) == (second,)


def test_the_lines_of_workers_have_their_worker(ring: LogRing):
    known = {"worker": "worker-1", "text": "line", "logger": "my.module", "component": "count", "task": 7}
    logging.getLogger("aiostorm.worker").warning("worker-1 count[7] my.module: line", extra={"aiostorm": known})
    [line] = ring.since(0)
    assert (line.worker, line.component, line.task) == ("worker-1", "count", 7)
    assert (line.logger, line.text) == ("my.module", "line")


def test_it_is_bounded(ring: LogRing):
    for number in range(KEPT + 10):
        log.warning("%d%s", number, "x" * 10_000)
    lines = ring.since(0)
    assert (len(lines), lines[0].number, lines[-1].number) == (KEPT, 11, KEPT + 10)
    assert max(len(line.text) for line in lines) < MOST_CHARS + 10
    assert lines[0].text.startswith("10xxx")


def test_records_of_others_are_not_kept_in_an_embedded_page(ring: LogRing):
    logging.getLogger("other.library").warning("private")
    assert ring.since(0) == ()


def test_a_program_without_handlers_still_has_its_warnings_on_stderr(
    ring: LogRing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log.warning("seen")
    log.info("not seen")
    assert capsys.readouterr().err == "seen\n"


def test_all_loggers_only_if_logging_is_configured(monkeypatch: pytest.MonkeyPatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    ring = LogRing()
    ring.attach(all_loggers=True)
    assert root.handlers == []  # or a later basicConfig would do nothing
    ring.detach()
    root.handlers.append(logging.NullHandler())
    ring.attach(all_loggers=True)
    logging.getLogger("other.library").warning("seen")
    ring.detach()
    logging.getLogger("other.library").warning("too late")
    assert [line.text for line in ring.since(0)] == ["seen"]
    assert len(root.handlers) == 1


def test_wrong_arguments_are_reported_as_logging_does(ring: LogRing, capsys: pytest.CaptureFixture[str]):
    ring.handle(logging.LogRecord("aiostorm", logging.INFO, __file__, 1, "%d", ("x",), None))
    assert ring.since(0) == ()
    assert "--- Logging error ---" in capsys.readouterr().err


def test_levels_are_those_that_were_set():
    log.setLevel("ERROR")
    try:
        assert levels()["aiostorm.tests.page"] == "ERROR"
        assert "" in levels()
    finally:
        log.setLevel(logging.NOTSET)
    assert "aiostorm.tests.page" not in levels()
