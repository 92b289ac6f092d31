"""Neighbours: whether the processes of two supervisors can connect to each other. Pure.

Those of one topology may be on any two nodes: a supervisor whose processes those of the others cannot reach is refused
when it registers, with what to do, instead of topologies that never start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..nimbus import SupervisorRecord


def conflict(own: SupervisorRecord, others: Mapping[str, SupervisorRecord]) -> str:
    """Why this supervisor cannot work with those that are there; empty: it can."""
    for name, other in sorted(others.items()):
        if why := _conflict(own, f"supervisor {name}{f' on {other.host}' if other.host else ''}", other):
            return why
    return ""


def _conflict(own: SupervisorRecord, who: str, other: SupervisorRecord) -> str:
    if own.address and not other.address:
        return (
            f"{who} has no address for other nodes: start it with --host, too (and topologies that run there again, "
            "with `aiostorm rebalance`), or leave out --host here"
        )
    if other.address and not own.address:
        return (
            f"{who} is reached at {other.address}: give this one an address that it can reach, too: --host ADDRESS "
            "--credentials DIR"
        )
    if not own.address and _place(own) != _place(other) and own.home and other.home:
        return (
            f"{who} has another home folder ({other.home}), so that the processes of both cannot find each other: give "
            "each an address, with --host ADDRESS --credentials DIR"
        )
    if own.credentials and other.credentials and own.credentials != other.credentials:
        return (
            f"{who} has other credentials: make the folders of all nodes with the same CA (aiostorm certs node), give "
            "them with --credentials, and see that all have TLS, or none; on one machine, give --token-file with one "
            "token for all"
        )
    return ""


def _place(record: SupervisorRecord) -> tuple[str, str, str]:
    return record.host, record.boot, record.home
