"""Keeping: may messages be open as long, and as many at once, as a bolt keeps their rows? Asked before anything runs.

| windows whose rows are kept | a message is open until | so many must be open at once, or nothing fires |
|---|---|---|
| by count | its last window is full | as many as a window has rows, all together |
| by event or ingestion time | a later row has moved time on | 2, of each spout task that is waited for |
| by the clock | the clock says so | 1 |

1. What is refused would never fire a window: each message times out, comes again and times out again.
2. What may be enough is not refused: how many rows windows by time hold only the rows can say, a bolt between may make
   many rows of a message, and a spout that tells watermarks moves time on without a row.
3. Without ackers nothing is open, and nothing is refused.
4. Incremental windows ack a row before they fire. Behind a source that goes on behind what was acked, what they hold
   when the process ends would be in no run: refused, unless the source accepts it (`lossy_windows`).

From: Storm, WindowedBoltExecutor.validate, which asks for length and slide, of one task, and only of windows by count.
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
    """A problem for each component that keeps tuples in vain: too long, or more than there are (None: by default)."""
    if not any(spec.time.keeps for spec in topology.components.values()):
        return []
    if config is None:
        from .config import Config

        config = Config()
    problems = list(_kept_too_long(topology, config))
    if config.acker_executors != 0:
        for spec in topology.components.values():
            problems += [f"bolt {spec.id!r}: {problem}" for problem in _kept_too_many(spec, topology, config)]
    return problems


def lossy_windows(specs: Mapping[str, ComponentSpec]) -> list[str]:
    """A problem for each spout of whose acked rows open windows would take some along when the process ends."""
    problems = []
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
                f"spout {spout.id!r}: with {spout.time.resumes} what was acked does not come again, and {bolts} behind "
                "it (incremental windows) ack rows before their windows fire: what these hold when the process ends "
                "would be lost. Use a BufferedWindowBolt, or windows in Spark, or accept it: lossy_windows=True"
            )
    return problems


def _kept_too_long(topology: Topology, config: Config) -> Iterator[str]:
    limit_s = config.message_timeout_s
    for spec in topology.components.values():
        kept_ms = spec.time.kept_ms
        if kept_ms is not None and config.enable_message_timeouts and kept_ms >= limit_s * 1000:
            yield (
                f"bolt {spec.id!r}: it keeps tuples until their windows have fired, for {kept_ms / 1000:g} s and more, "
                f"but messages time out after {limit_s:g} s: raise topology.message.timeout.secs above that "
                f"(create_topology(config=Config(message_timeout_s=…))), {_ADVICE}"
            )


def _kept_too_many(spec: ComponentSpec, topology: Topology, config: Config) -> Iterator[str]:
    role = spec.time
    sources = _sources(spec, topology)
    if role.kept_rows is not None:
        pending = [_most_pending(source, config) for source in sources]
        most = sum(several for several in pending if several is not None)
        if None not in pending and role.kept_rows > most:
            yield (
                f"it keeps {role.kept_rows} tuples until their windows have fired, but its spouts have "
                f"{_messages(most)} open at most: raise topology.max.spout.pending, {_ADVICE}"
            )
            return
    waits = "it keeps tuples until later ones have moved time on, but"
    advice = f"so no later one comes: raise topology.max.spout.pending above what windows hold of one task, {_ADVICE}"
    if role.later is LaterRows.EACH:
        stuck = [
            source.id
            for source in sources
            if not source.time.emits_watermarks and _pending_of_a_task(source, config) == 1
        ]
        for name in stuck:
            yield f"{waits} a task of spout {name!r} has 1 message open at most, {advice}"
        if stuck:
            return
    if role.later is not LaterRows.NONE and _most_behind(spec, topology, config) == 1:
        yield f"{waits} its spouts have 1 message open at most, {advice}"


def _most_behind(spec: ComponentSpec, topology: Topology, config: Config) -> int | None:
    """So many messages are open at once whose rows come to a bolt, from whatever distance; None: nobody can say."""
    most, ahead, seen = 0, [spec], {spec.id}
    while ahead:
        for source in _sources(ahead.pop(), topology):
            if source.id in seen:
                continue
            seen.add(source.id)
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
    """So many messages of a spout are open at once; None: nobody can say. (Bolts may make many rows of a message.)"""
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
