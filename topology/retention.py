"""Retention: may enough messages be open, for long enough, for a bolt that keeps their rows? Checked before it runs.

| windows whose rows are kept | a message is open until | messages that must be open at once, or no window fires |
|---|---|---|
| by count | its last window is full | the rows of a window, in all tasks together |
| by event or ingestion time | a later row has advanced the time | 2, of each spout task whose time is waited for |
| by the clock | its window ends by the clock | 1 |

1. A refused topology would never fire a window: each message would time out, be replayed and time out again.
2. A topology that may work is not refused: the number of rows in windows by time depends on the rows, a bolt in between
   may make many rows from a message, and a spout that emits watermarks advances the time without a row.
3. Without ackers no message is open, and nothing is refused: as with any guarantee but at-least-once.
4. Incremental windows ack a row before they fire. If the source continues after its last acked message, open windows
   are lost when the process ends: refused, unless the source accepts it (`lossy_windows`).

From: Storm, WindowedBoltExecutor.validate, which checks length and slide, of one task, and only for windows by count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from .time_flow import LaterRows

if TYPE_CHECKING:
    from .config import Config
    from .topology import ComponentSpec, Topology

_ADVICE: Final = "or use a WindowedBolt, which keeps no tuples"


def retention_problems(topology: Topology, config: Config | None) -> list[str]:
    """A problem for each component that keeps tuples too long, or more than can be open (None: default settings)."""
    if not any(spec.time.keeps for spec in topology.components.values()):
        return []
    if config is None:
        from .config import Config

        config = Config()
    if config.guarantee != "at-least-once":
        return []
    problems = list(_kept_too_long(topology, config))
    if config.acker_executors != 0:
        for spec in topology.components.values():
            problems += [f"bolt {spec.id!r}: {problem}" for problem in _kept_too_many(spec, topology, config)]
    return problems


def lossy_windows(specs: Mapping[str, ComponentSpec]) -> list[str]:
    """A problem for each spout whose acked rows could be lost with open windows when the process ends."""
    problems: list[str] = []
    for spout in specs.values():
        if not spout.time.resumes:
            continue
        reached, ahead = {spout.id}, [spout.id]
        while ahead:
            at = ahead.pop()
            for spec in specs.values():
                if spec.id not in reached and any(part.source.component == at for part in spec.inputs):
                    reached.add(spec.id)
                    ahead.append(spec.id)
        behind = [repr(spec.id) for spec in specs.values() if spec.id in reached and spec.time.loses_windows]
        if behind:
            bolts = f"bolt{'' if len(behind) == 1 else 's'} {', '.join(behind)}"
            problems.append(
                f"spout {spout.id!r}: with {spout.time.resumes} acked messages are not read again, but {bolts} "
                "downstream (incremental windows) ack rows before their windows fire: open windows would be lost when "
                "the process ends. Use a BufferedWindowBolt, or windows in Spark, or accept it: lossy_windows=True"
            )
    return problems


def _kept_too_long(topology: Topology, config: Config) -> Iterator[str]:
    limit_s = config.message_timeout_s
    for spec in topology.components.values():
        kept_ms = spec.time.kept_ms
        if kept_ms is not None and config.enable_message_timeouts and kept_ms >= limit_s * 1000:
            yield (
                f"bolt {spec.id!r}: it keeps tuples until their windows have fired, for at least {kept_ms / 1000:g} s, "
                f"but messages time out after {limit_s:g} s: raise topology.message.timeout.secs above that "
                f"(create_topology(config=Config(message_timeout_s=…))), choose guarantee='exactly-once', {_ADVICE}"
            )


def _kept_too_many(spec: ComponentSpec, topology: Topology, config: Config) -> Iterator[str]:
    role = spec.time
    sources = _sources(spec, topology)
    if role.kept_rows is not None:
        pending = [_most_pending(source, config) for source in sources]
        most = sum(several for several in pending if several is not None)
        if None not in pending and role.kept_rows > most:
            yield (
                f"it keeps {role.kept_rows} tuples until their windows have fired, but its spouts have at most "
                f"{_messages(most)} open: raise topology.max.spout.pending, {_ADVICE}"
            )
            return
    waits = "it keeps tuples until later ones have advanced the time, but"
    advice = f"so no later one comes: raise topology.max.spout.pending above the rows of a window, {_ADVICE}"
    if role.later is LaterRows.EACH:
        stuck = [
            source.id
            for source in sources
            if not source.time.emits_watermarks and _pending_of_a_task(source, config) == 1
        ]
        for name in stuck:
            yield f"{waits} a task of spout {name!r} has at most 1 message open, {advice}"
        if stuck:
            return
    if role.later is not LaterRows.NONE and _most_behind(spec, topology, config) == 1:
        yield f"{waits} its spouts have at most 1 message open, {advice}"


def _most_behind(spec: ComponentSpec, topology: Topology, config: Config) -> int | None:
    """The most open messages whose rows reach a bolt, directly or through other bolts; None: unknown."""
    most, ahead, visited = 0, [spec], {spec.id}
    while ahead:
        for source in _sources(ahead.pop(), topology):
            if source.id in visited:
                continue
            visited.add(source.id)
            if source.kind == "spout":
                pending = None if source.time.emits_watermarks else _most_pending(source, config)
                if pending is None:
                    return None
                most += pending
            elif source.time.anchors and not source.time.emits_watermarks:
                ahead.append(source)
            else:
                return None
    return most


def _most_pending(source: ComponentSpec, config: Config) -> int | None:
    """The most open messages of a spout; None: unknown. (Bolts may make many rows from a message.)"""
    most, cap = _pending_of_a_task(source, config), config.max_task_parallelism
    return None if most is None else most * (source.parallelism if cap is None else min(source.parallelism, cap))


def _pending_of_a_task(source: ComponentSpec, config: Config) -> int | None:
    from .config import component_config

    return component_config(config, source.config).max_spout_pending if source.kind == "spout" else None


def _sources(spec: ComponentSpec, topology: Topology) -> list[ComponentSpec]:
    names = dict.fromkeys(subscription.source.component for subscription in spec.inputs)
    return [topology.components[name] for name in names]


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
