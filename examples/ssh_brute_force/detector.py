"""Finds guessed passwords: addresses with five failed logins within a minute, from the log of an SSH server.

python sample_log.py > auth.log
aiostorm run detector.py auth.log

lines ──▶ failures ──by address──▶ per_minute ×2 ──by address──▶ alerts
                                       └─ what came too late ──▶ late
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Combined,
    Config,
    Count,
    Each,
    KeyedState,
    LatePolicy,
    Max,
    Min,
    Sliding,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    ValueState,
    WindowedBolt,
    bolt,
    spout,
)

LIMIT = 5  # failed logins of one address …
WITHIN_MS = 60_000  # … within this time
STEP_MS = 10_000
LAG_MS = 10_000  # lines may be so much out of order
QUIET_MS = 600_000  # after so long without failures, an address that fails again is a new attack
MAX_ATTACKS = 10_000  # the oldest are forgotten: an attacker with many addresses must not fill the memory

FAILED = re.compile(
    r"(?P<at>\d{4}-\S+) \S+ sshd(?:-session)?\[\d+\]: (?:message repeated (?P<times>\d{1,4}) times: \[ )?"
    r"Failed \S+ for (?:invalid user )?(?P<user>.*) from (?P<address>\S+) port \d+(?: ssh2)?\]?$"
)


@bolt(outputs=("address", "user", "at"))
def failures(line: str) -> Iterator[tuple[str, str, int]]:
    """The failed logins in a line: usually one, or none. `at` is in milliseconds since 1970."""
    found = FAILED.match(line.rstrip())
    if found:
        at_ms = round(datetime.fromisoformat(found["at"]).timestamp() * 1000)
        for _ in range(int(found["times"] or 1)):
            yield found["address"], found["user"], at_ms


def per_minute() -> WindowedBolt:
    """Failed logins of each address within a minute, every ten seconds: at each fifth one, and at the minute's end."""
    return WindowedBolt(
        Sliding(WITHIN_MS, STEP_MS),
        Combined(count=Count(), first=Min("at"), last=Max("at")),
        key="address",
        timestamp="at",
        lag_ms=LAG_MS,
        early=Each(LIMIT),
        late=LatePolicy.STREAM,
    )


class Alerts(BasicBolt):
    """One alert for each attack, as soon as it is one; and how many logins failed within a minute at the worst."""

    outputs = ("address", "first")
    state = KeyedState(key="address")

    def prepare(self, context: TopologyContext) -> None:
        """The attacks so far, by address: none at first."""
        self.attacks = context.state

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """What one window has counted so far."""
        address, count = tup["address"], tup["count"]
        if count < LIMIT:
            return
        attack = self.attacks.get(address)
        if attack is None or tup["first"] > attack["last"] + QUIET_MS:
            attack = {"address": address, "first": tup["first"], "last": tup["last"], "worst": 0}
            self.attacks.pop(address, None)  # so that the new one is the youngest
            self.attacks[address] = attack
            if len(self.attacks) > MAX_ATTACKS:
                self.attacks.discard(next(iter(self.attacks)))
            logging.getLogger("detector").warning("%s guesses passwords since %s", address, clock(tup["first"]))
            collector.emit((address, tup["first"]))
        attack["first"] = min(attack["first"], tup["first"])
        attack["last"] = max(attack["last"], tup["last"])
        attack["worst"] = max(attack["worst"], count)

    def result(self) -> list[dict[str, Any]]:
        """The attacks so far, with times in milliseconds since 1970."""
        return list(self.attacks.values())


class Late(BasicBolt):
    """Counts the failed logins that came after their minutes were over."""

    state = ValueState(0)

    def prepare(self, context: TopologyContext) -> None:
        """How many there were: none at first."""
        self.count = context.state

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """One that came too late: `values` is the row."""
        self.count.value += 1
        logging.getLogger("detector").warning("too late: %s", tup["values"])

    def result(self) -> int:
        """How many."""
        return int(self.count.value)


def detector(lines: Any, reports: Any = None, config: Config | None = None) -> Topology:
    """The topology, with a spout of lines, and with a bolt that gets the alerts."""
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("failures", failures).shuffle_grouping("lines")
    builder.set_bolt("per_minute", per_minute, parallelism=2).fields_grouping("failures", "address")
    builder.set_bolt("alerts", Alerts).fields_grouping("per_minute", "address")
    builder.set_bolt("late", Late).global_grouping("per_minute", stream="late")
    if reports is not None:
        builder.set_bolt("reports", reports).shuffle_grouping("alerts")
    return builder.create_topology("ssh-brute-force", summary, config)


def topology(path: str = "auth.log") -> Topology:
    """Read a log from its beginning to its end."""
    open(path, encoding="utf-8").close()  # if it cannot be read, say so before anything is started

    @spout(outputs="line")
    def lines() -> Iterator[str]:
        with open(path, encoding="utf-8", errors="replace") as log:
            yield from log

    return detector(lines)


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """What `aiostorm run` prints at the end."""
    [attacks], [late] = results["alerts"], results["late"]
    rows = [
        {"address": a["address"], "from": clock(a["first"]), "to": clock(a["last"]), "worst minute": a["worst"]}
        for a in sorted(attacks, key=lambda attack: attack["address"])
    ]
    return {"attacks": rows, "too late": late}


def clock(ms: int) -> str:
    """A time of day, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")
