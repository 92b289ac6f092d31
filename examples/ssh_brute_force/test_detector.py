"""Tests of the detector: no files, no sleeping, no server."""

from __future__ import annotations

from detector import Alerts, detector, failures, per_minute, summary
from sample_log import sample

from aiostorm import Spout
from aiostorm.testing import bolt_harness, complete_topology

AT = "2026-11-23T07:00:00.000+00:00"
AT_MS = 1_795_417_200_000


class Lines(Spout):
    """Stands where the lines come from: the tests give them."""

    outputs = ("line",)

    def next_tuple(self) -> None:
        """Never called."""
        raise RuntimeError("this would read a real log")


def said(text: str) -> list[tuple[str, str, int]]:
    """What is read from a line that the SSH server wrote."""
    return list(failures(f"{AT} gate sshd[4711]: {text}\n"))


def test_a_failed_login_is_read() -> None:
    assert said("Failed password for root from 203.0.113.7 port 40000 ssh2") == [("203.0.113.7", "root", AT_MS)]
    assert said("Failed password for invalid user oracle from 2001:db8::7 port 1 ssh2") == [
        ("2001:db8::7", "oracle", AT_MS)
    ]


def test_other_lines_are_not() -> None:
    assert said("Accepted password for ann from 192.0.2.10 port 40038 ssh2") == []
    assert list(failures(f"{AT} gate cron[1]: Failed password for root from 203.0.113.7 port 40000 ssh2")) == []


def test_a_repeated_message_counts_as_often() -> None:
    text = "message repeated 3 times: [ Failed password for root from 203.0.113.7 port 40000 ssh2]"
    assert said(text) == [("203.0.113.7", "root", AT_MS)] * 3


def test_a_name_cannot_put_the_blame_on_another_address() -> None:
    name = "x from 10.0.0.1 port 22 ssh2"
    assert said(f"Failed password for invalid user {name} from 203.0.113.99 port 40000 ssh2") == [
        ("203.0.113.99", name, AT_MS)
    ]


async def test_the_fifth_failure_within_a_minute_is_reported_at_once() -> None:
    async with bolt_harness(per_minute(), fields=("address", "user", "at")) as h:
        for second in (0, 20, 40, 50):
            await h.execute("203.0.113.7", "root", AT_MS + second * 1000)
        assert [row for row in h.emitted if row[1] >= 5] == []
        await h.execute("203.0.113.7", "root", AT_MS + 59_000)
        assert [row[:4] for row in h.emitted if row[1] >= 5] == [("203.0.113.7", 5, AT_MS, AT_MS + 59_000)]


async def test_what_comes_after_its_minute_goes_to_late() -> None:
    async with bolt_harness(per_minute(), fields=("address", "user", "at")) as h:
        await h.execute("203.0.113.7", "root", AT_MS)
        await h.execute("203.0.113.7", "root", AT_MS + 180_000)
        await h.execute("198.51.100.77", "ann", AT_MS + 5_000)
        assert [row[0] for row in h.stream("late")] == [("198.51.100.77", "ann", AT_MS + 5_000)]


async def test_one_alert_for_one_attack() -> None:
    fields = ("address", "count", "first", "last", "start", "end", "final")
    async with bolt_harness(Alerts(), fields=fields) as h:
        await h.execute("203.0.113.7", 4, 0, 9_000, 0, 60_000, True)
        assert h.emitted == []
        for count in (5, 10, 12):
            await h.execute("203.0.113.7", count, 0, count * 1000, 0, 60_000, count == 12)
        assert h.emitted == [("203.0.113.7", 0)]
        an_hour_later = 3_600_000
        await h.execute("203.0.113.7", 5, an_hour_later, an_hour_later + 5_000, an_hour_later, an_hour_later, False)
        assert h.emitted == [("203.0.113.7", 0), ("203.0.113.7", an_hour_later)]


async def test_the_attacks_of_the_sample() -> None:
    result = await complete_topology(detector(Lines), {"lines": sample()})
    found = summary(result.results)
    assert [(row["address"], row["worst minute"]) for row in found["attacks"]] == [
        ("192.0.2.44", 6),
        ("203.0.113.7", 30),
        ("203.0.113.99", 5),
    ]
    assert found["too late"] == 1
    assert (result.failed, result.pending) == (0, 0)
