"""Failures: how often an address may fail to authenticate. Pure.

1. After MOST failures within PERIOD_S an address is refused, whatever it sends, until the first of them is that old.
2. At most MAX_ADDRESSES are remembered; the one whose last failure is the oldest is forgotten for another one. IPv6
   addresses count by their /64, for one machine may have all of it.
"""

from __future__ import annotations

from collections import deque
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

MOST: Final = 10
PERIOD_S: Final = 60.0
MAX_ADDRESSES: Final = 1_024


class Failures:
    """The failures of the last minute, by address."""

    def __init__(self) -> None:
        self._at_s: dict[str, deque[float]] = {}  # the address with the newest failure last

    def __len__(self) -> int:
        return len(self._at_s)

    def refuses(self, address: str, now_s: float) -> bool:
        """Has it failed too often?"""
        times = self._at_s.get(counted_as(address))
        return times is not None and len(times) == MOST and now_s - times[0] < PERIOD_S

    def failed(self, address: str, now_s: float) -> None:
        """It has failed once more."""
        key = counted_as(address)
        times = self._at_s.pop(key, None) or deque(maxlen=MOST)
        times.append(now_s)
        if len(self._at_s) >= MAX_ADDRESSES:
            del self._at_s[next(iter(self._at_s))]
        self._at_s[key] = times


def counted_as(address: str) -> str:
    """What stands for a host: the address, or the network that one machine has."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return address
    return str(ip.ipv4_mapped or IPv6Network((ip, 64), strict=False))
