"""An SSH server's log of seven minutes, to try the detector with: `python sample_log.py > auth.log`.

Addresses are of the networks that are reserved for documentation (RFC 5737).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGINS = datetime(2026, 11, 23, 7, 0, 0, tzinfo=UTC)


def failed(second: float, address: str, user: str) -> tuple[float, str]:
    """When a login failed, and the line about it."""
    return second, f"Failed password for {user} from {address} port {40_000 + int(second)} ssh2"


def sample() -> list[str]:
    """The lines, in the order in which they were written."""
    events = [
        # 40 names in 80 seconds.
        *(failed(60 + 2 * n, "203.0.113.7", f"invalid user test{n}") for n in range(40)),
        # Six in ten seconds, three of them before the minute's end and three after.
        *(failed(115 + 2 * n, "192.0.2.44", "root") for n in range(6)),
        # One each 20 seconds: three a minute, too few.
        *(failed(20 * n, "198.51.100.9", "root") for n in range(20)),
        # A name that is made to look like the end of a line: the address is the last one.
        *(failed(300 + n, "203.0.113.99", "invalid user x from 10.0.0.1 port 22 ssh2") for n in range(5)),
        # Two mistakes, and then the right password.
        failed(30, "192.0.2.10", "ann"),
        failed(34, "192.0.2.10", "ann"),
        (38, "Accepted password for ann from 192.0.2.10 port 40038 ssh2"),
        (400, "Received disconnect from 192.0.2.10 port 40038:11: disconnected by user"),
    ]
    lines = [(second, _line(second, said)) for second, said in sorted(events)]
    # Another host's lines come through a relay. This one was 170 seconds on its way.
    delayed = _line(*failed(150, "198.51.100.77", "root"))
    at = next(place for place, (second, _) in enumerate(lines) if second >= 320)
    return [line for _, line in [*lines[:at], (320, delayed), *lines[at:]]]


def _line(second: float, said: str) -> str:
    return f"{(BEGINS + timedelta(seconds=second)).isoformat(timespec='milliseconds')} gate sshd[4711]: {said}"


if __name__ == "__main__":
    print("\n".join(sample()))
