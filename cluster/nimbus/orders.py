"""Orders: what is wanted of topologies, written to the store.

    submit ─► /topologies/NAME        want, rebalance ─► another version of it        the leader sees it, and plans

Each also writes the folder, whose watch is the leader's: a change of one of a thousand topologies needs no watch of its
own. Two that change one topology at once: the second one reads again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..coordination import BadVersionError, CoordinationError, Create, NodeExistsError, NoNodeError, Put
from .records import TOPOLOGIES, TopologyRecord, Wanted, name_in, pack, path_of, unpack

if TYPE_CHECKING:
    from ..coordination import Coordination

MAX_WAIT_S: Final = 7 * 86_400.0

TRIES: Final = 20
"""Of a change, when others change the same topology."""


class OrderError(CoordinationError):
    """An order cannot be carried out: why, and what to do."""


async def submit(coordination: Coordination, name: str, record: TopologyRecord) -> None:
    """Hand a topology over to the cluster. OrderError if there is one of that name; ValueError; UnavailableError."""
    if record.workers < 1:
        raise ValueError(f"a topology has 1 worker or more, not {record.workers}")
    try:
        await coordination.commit([Create(path_of(TOPOLOGIES, name), pack(record)), Put(TOPOLOGIES, b"")])
    except NodeExistsError as error:
        there = await coordination.get(error.path)
        ends = there is not None and unpack(TopologyRecord, error.path, there.value).wanted == "KILLED"
        what = "is being killed: wait until it has ended" if ends else "is there already: kill it, or take another name"
        raise OrderError(f"topology {name!r} {what}") from error
    except NoNodeError as error:
        raise OrderError(f"{coordination.where} is no cluster yet: start its nimbus (aiostorm nimbus)") from error


async def want(coordination: Coordination, name: str, wanted: Wanted, wait_s: float | None = None) -> None:
    """Activate, deactivate or kill a topology. OrderError if there is none, or it is being killed; UnavailableError.

    `wait_s`: how long one that is killed may drain; None: its message timeout. To kill it again changes nothing.
    """
    if wait_s is not None and not 0 <= wait_s < MAX_WAIT_S:
        raise ValueError(f"a topology may drain for 0 to {MAX_WAIT_S:,.0f} s, not {wait_s}")

    def changed(record: TopologyRecord) -> TopologyRecord:
        return record if record.wanted == wanted else replace(record, wanted=wanted, wait_s=wait_s)

    await _change(coordination, name, changed)


async def rebalance(coordination: Coordination, name: str, workers: int | None = None) -> None:
    """Spread a topology anew over the supervisors, with so many workers; None: as many as before.

    OrderError if there is none, or it is being killed; ValueError; UnavailableError.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"a topology has 1 worker or more, not {workers}")

    def changed(record: TopologyRecord) -> TopologyRecord:
        count = record.workers if workers is None else workers
        return replace(record, workers=count, generation=record.generation + 1)

    await _change(coordination, name, changed)


async def _change(coordination: Coordination, name: str, change: Callable[[TopologyRecord], TopologyRecord]) -> None:
    path = path_of(TOPOLOGIES, name)
    for _ in range(TRIES):
        node = await coordination.get(path)
        if node is None:
            raise OrderError(await why_unknown(coordination, name))
        before = unpack(TopologyRecord, path, node.value)
        after = change(before)
        if after == before:
            return
        if before.wanted == "KILLED":
            raise OrderError(f"topology {name!r} is being killed")
        try:
            await coordination.commit([Put(path, pack(after), node.version), Put(TOPOLOGIES, b"")])
        except (BadVersionError, NoNodeError):
            continue
        return
    raise OrderError(f"topology {name!r} is changed by others all the time: try again")


async def why_unknown(coordination: Coordination, name: str) -> str:
    """What to say if there is no topology of this name. NoNodeError if it is no cluster."""
    names = [name_in(child) for child in await coordination.children(TOPOLOGIES)]
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"no topology {name!r}: did you mean {close[0]!r}?"
    listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"no topology {name!r}; there are: {listed}" if names else f"no topology {name!r}: there is none at all"
