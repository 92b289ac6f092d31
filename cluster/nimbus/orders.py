"""Orders: what is wanted of topologies, written to the store.

    submit ─► /topologies/NAME        want, rebalance ─► another version of it        the leader sees it, and plans
    update ─► other settings, which its parent takes over ─► refuse_update, if it cannot
    rebalance, replace_code ─► another generation; what was before is kept ─┬─ it runs: confirm ─► that is forgotten
                                                                             ╰─ it does not: take_back

Each also writes the folder, whose watch is the leader's: a change of one of a thousand topologies needs no watch of its
own. Two that change one topology at once: the second one reads again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..coordination import BadVersionError, CoordinationError, Create, NodeExistsError, NoNodeError, Put
from .pins import check_pins, merged_pins
from .records import TOPOLOGIES, RefusedPlan, RefusedUpdate, TopologyRecord, Wanted, name_in, pack, path_of, unpack

if TYPE_CHECKING:
    from ..coordination import Coordination
    from .records import Setting

MAX_WAIT_S: Final = 7 * 86_400.0

MAX_WHY_CHARS: Final = 2_000

TRIES: Final = 20
"""Of a change, when others change the same topology."""


class OrderError(CoordinationError):
    """An order cannot be carried out: why, and what to do."""


async def submit(coordination: Coordination, name: str, record: TopologyRecord) -> None:
    """Hand a topology over to the cluster. OrderError if there is one of that name; ValueError; UnavailableError."""
    if record.workers < 1:
        raise ValueError(f"a topology has 1 worker or more, not {record.workers}")
    check_pins(record.pins)
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
    _check_wait(wait_s)

    def changed(record: TopologyRecord) -> TopologyRecord:
        return record if record.wanted == wanted else replace(record, wanted=wanted, wait_s=wait_s)

    await _change(coordination, name, changed)


async def rebalance(
    coordination: Coordination,
    name: str,
    workers: int | None = None,
    parallelism: Mapping[str, int] | None = None,
    wait_s: float | None = None,
    pins: Mapping[str, frozenset[str]] | None = None,
) -> TopologyRecord:
    """Spread a topology anew over the supervisors, with so many workers and tasks; None: as many as before.

    `parallelism`: component → tasks; the others have as many as before. `wait_s`: how long it may drain; None: its
    message timeout. `pins`: component → labels of its nodes (none: its pin ends); the others are as before. Returns the
    record. OrderError if there is none, or it is being killed; ValueError for too many pins, too; UnavailableError.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"a topology has 1 worker or more, not {workers}")
    _check_wait(wait_s)

    def changed(record: TopologyRecord) -> TopologyRecord:
        count = record.workers if workers is None else workers
        tasks = {**record.parallelism, **(parallelism or {})}
        pinned = merged_pins(record.pins, pins or {})
        return replace(next_plan(record), workers=count, parallelism=tasks, pins=pinned, wait_s=wait_s)

    return await _change(coordination, name, changed)


async def replace_code(
    coordination: Coordination, name: str, change: Callable[[TopologyRecord], TopologyRecord]
) -> TopologyRecord:
    """Give a topology other code, settings, workers and tasks, as `change` says; all its processes are new ones then.

    Returns the record. OrderError if there is none, or it is being killed; UnavailableError.
    """

    def changed(record: TopologyRecord) -> TopologyRecord:
        after = change(next_plan(record))
        return replace(after, renewed=after.generation, wait_s=None)

    return await _change(coordination, name, changed)


async def update(coordination: Coordination, name: str, settings: Mapping[str, Setting]) -> TopologyRecord:
    """Change settings of a topology, by key; its parent gives them to all that runs, and later parents do.

    Returns the record. OrderError if there is none, or it is being killed; RecordError if they are too large;
    UnavailableError.
    """

    def changed(record: TopologyRecord) -> TopologyRecord:
        updates = {**record.updates, **settings}
        return replace(record, updates=updates, update=record.update + 1, refused_update=None)

    return await _change(coordination, name, changed)


async def refuse_update(
    coordination: Coordination, name: str, number: int, holds: Mapping[str, Setting], why: str, at_s: float
) -> None:
    """The update of this number cannot be taken: these settings go on to hold. As `confirm`."""

    def changed(record: TopologyRecord) -> TopologyRecord:
        if record.update != number:  # another one has come: the parent looks at all of them again
            return record
        refused = RefusedUpdate(number, why[:MAX_WHY_CHARS], at_s)
        return replace(record, updates=dict(holds), refused_update=refused)

    await _change(coordination, name, changed)


async def confirm(coordination: Coordination, name: str, generation: int) -> None:
    """This generation runs: what was before it is not needed any more. OrderError as `want`; UnavailableError."""

    def changed(record: TopologyRecord) -> TopologyRecord:
        return replace(record, former=None) if record.generation == generation else record

    await _change(coordination, name, changed)


async def take_back(coordination: Coordination, name: str, generation: int, why: str, at_s: float) -> None:
    """This generation does not run: go back to what was before it, if anything was. As `confirm`."""
    await _change(coordination, name, lambda record: taken_back(record, generation, why, at_s))


def next_plan(record: TopologyRecord) -> TopologyRecord:
    """The next generation, before anything is changed in it; what ran last is kept until the next one runs."""
    former = record.plan() if record.former is None else record.former
    return replace(record, generation=record.generation + 1, former=former, refused=None)


def taken_back(record: TopologyRecord, generation: int, why: str, at_s: float) -> TopologyRecord:
    """The record after this generation has not run. Unchanged if it is not the present one, or the first."""
    former = record.former
    if former is None or record.generation != generation or record.wanted == "KILLED":
        return record
    after = generation + 1
    other_code = (former.blob, former.target, former.arguments, former.config) != (
        record.blob,
        record.target,
        record.arguments,
        record.config,
    )
    return replace(
        record.with_plan(former),
        generation=after,
        renewed=after if other_code else record.renewed,
        former=None,
        refused=RefusedPlan(generation, why[:MAX_WHY_CHARS], at_s),
    )


def _check_wait(wait_s: float | None) -> None:
    if wait_s is not None and not 0 <= wait_s < MAX_WAIT_S:
        raise ValueError(f"a topology may drain for 0 to {MAX_WAIT_S:,.0f} s, not {wait_s}")


async def _change(
    coordination: Coordination, name: str, change: Callable[[TopologyRecord], TopologyRecord]
) -> TopologyRecord:
    """Change a record; returns it as it is then."""
    path = path_of(TOPOLOGIES, name)
    for _ in range(TRIES):
        node = await coordination.get(path)
        if node is None:
            raise OrderError(await why_unknown(coordination, name))
        before = unpack(TopologyRecord, path, node.value)
        after = change(before)
        if after == before:
            return before
        if before.wanted == "KILLED":
            raise OrderError(f"topology {name!r} is being killed")
        try:
            await coordination.commit([Put(path, pack(after), node.version), Put(TOPOLOGIES, b"")])
        except (BadVersionError, NoNodeError):
            continue
        return after
    raise OrderError(f"topology {name!r} is changed by others all the time: try again")


async def why_unknown(coordination: Coordination, name: str) -> str:
    """What to say if there is no topology of this name. NoNodeError if it is no cluster."""
    names = [name_in(child) for child in await coordination.children(TOPOLOGIES)]
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"no topology {name!r}: did you mean {close[0]!r}?"
    listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"no topology {name!r}; there are: {listed}" if names else f"no topology {name!r}: there is none at all"
