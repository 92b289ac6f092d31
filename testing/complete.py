"""Complete a topology: run it to its end on rows that a test provides, and capture every tuple that is emitted.

    mock_sources ─► [spout replaced] ─► split ─► count
                          └───────────────┴────────┴──► capture (one more bolt, reads every stream)

1. The components run as they do in production: the topology is the same, except for the replaced spouts and one more
   bolt, which reads every stream (global grouping) and has the last task id.
2. On a direct stream the emitter names the receiving task, so no bolt can receive it, too: a task hook captures it.
3. It ends when every spout is exhausted or idle and every message is acked or failed, not after a fixed time.
4. A tuple that is emitted twice (because its message was replayed) is captured twice.

Storm: Testing.completeTopology, MockedSources, Testing.readTuples. There every stream gets a capture bolt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cluster import LocalCluster, RunningTopology
from ..topology import (
    DEFAULT_STREAM,
    ComponentSpec,
    Config,
    Failure,
    GlobalGrouping,
    Row,
    StreamId,
    Subscription,
    TaskHook,
    Topology,
)
from .bolts import Recorder
from .errors import ScriptError, WaitTimeoutError
from .fakes import with_fakes
from .hooked import hooked
from .spouts import WAIT_S, FixedSpout
from .tracked import open_messages

if TYPE_CHECKING:
    from ..metrics import TopologyMetrics
    from ..tasks import ErrorReport

CAPTURE = "__capture"

Streams = dict[StreamId, list[Row]]


@dataclass(frozen=True, slots=True)
class CompletedTopology:
    """What a topology did: `result["split"]` are the rows that a component emitted on its default stream.

    `acked` and `failed` count messages (a message that failed twice counts twice), `pending` is 0. `failures` has, for
    each mock source, message id → reason; `results` what `Component.result()` of each task returned; `errors` the last
    errors in user code; `elapsed_s` is the loop's time.
    """

    metrics: TopologyMetrics
    errors: list[ErrorReport]
    results: dict[str, list[Any]]
    failures: dict[str, dict[Any, Failure]]
    acked: int
    failed: int
    pending: int
    elapsed_s: float
    _streams: Streams = field(repr=False)

    def __getitem__(self, component: str) -> list[Row]:
        return self.stream(component)

    def stream(self, component: str, stream: str = DEFAULT_STREAM) -> list[Row]:
        """The rows that a component emitted on a stream, each task's in order. KeyError if there is no such stream."""
        found = self._streams.get(StreamId(component, stream))
        if found is None:
            known = ", ".join(map(str, self._streams))
            raise KeyError(f"no stream {StreamId(component, stream)}; there are: {known}")
        return list(found)


async def complete_topology(
    topology: Topology,
    mock_sources: Mapping[str, Iterable[Any]] | None = None,
    config: Config | Mapping[str, Any] | None = None,
    timeout_s: float = WAIT_S,
    *,
    name: str = "complete",
    resources: Mapping[str, Any] | None = None,
) -> CompletedTopology:
    """Run a topology, with some spouts replaced, until nothing is left to do; what it emitted.

    `mock_sources`: spout → the rows that it emits instead: `("a b",)`, or `FixedTuple(values, stream, message_id)`.
    `resources`: name → what `context.resource(name)` gives instead of opening the topology's own. It runs in the
    current event loop, in a cluster of its own, as `name`. WaitTimeoutError after `timeout_s` seconds of the loop's
    time, ScriptError for sources and resources that do not fit, TopologyFailedError if a component gives up.
    """
    topology = with_fakes(topology, resources)
    sources = {name: _source(topology, name, rows) for name, rows in (mock_sources or {}).items()}
    recorder = Recorder()
    direct_rows: Streams = {}
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with LocalCluster(Config(testing_always_try_serialize=True)) as cluster:
        running = await cluster.submit(name, _observed(topology, sources, recorder, direct_rows), config)
        await _wait(running, sources, timeout_s)
        elapsed_s = loop.time() - begun_s
        metrics, results = running.metrics(), await running.results()
        await running.kill()
    spouts = [metrics[spec.id] for spec in topology.spouts]
    return CompletedTopology(
        metrics=metrics,
        errors=running.errors(),
        results=results,
        failures={name: spout.failed for name, spout in sources.items()},
        acked=sum(spout.acked for spout in spouts),
        failed=sum(spout.failed for spout in spouts),
        pending=metrics.pending,
        elapsed_s=elapsed_s,
        _streams=_captured(topology, recorder, direct_rows),
    )


async def _wait(running: RunningTopology, sources: Mapping[str, FixedSpout], timeout_s: float) -> None:
    # They raise TimeoutError for their own timeout only; a component's TimeoutError is reported, not raised.
    all_finish = all(spec.id in sources for spec in running.topology.spouts)
    try:
        await (running.wait_finished(timeout_s) if all_finish else running.wait_idle(timeout_s))
    except TimeoutError:
        real = [spec.id for spec in running.topology.spouts if spec.id not in sources]
        hint = f"; spouts that were not replaced and may never be idle: {', '.join(real)}" if real else ""
        raise WaitTimeoutError(
            f"the topology was not done after {timeout_s:g} s{hint}; {open_messages(running)}"
        ) from None


def _source(topology: Topology, name: str, rows: Iterable[Any]) -> FixedSpout:
    spec = topology.components.get(name)
    if spec is None or spec.kind != "spout":
        spouts = ", ".join(spout.id for spout in topology.spouts)
        raise ScriptError(f"mock_sources: {name!r} is no spout of this topology; the spouts are: {spouts}")
    streams = {
        stream: declared
        for stream, declared in spec.outputs.items()
        if not stream.startswith("__") and not declared.direct
    }
    default = streams.pop(DEFAULT_STREAM, None)
    try:
        return FixedSpout(rows, *(default.fields if default is not None else ()), streams=streams)
    except ScriptError as error:
        raise ScriptError(f"mock_sources: {name!r}: {error}") from None


def _observed(topology: Topology, sources: Mapping[str, FixedSpout], recorder: Recorder, direct: Streams) -> Topology:
    """The topology with its spouts replaced and everything that is emitted captured."""
    components: dict[str, ComponentSpec] = {}
    inputs: list[Subscription] = []
    for spec in topology.components.values():
        source = sources.get(spec.id)
        if source is not None:
            spec = replace(spec, template=source, config={**spec.config, **source.config})
        for name, declared in spec.outputs.items():
            if declared.direct:
                rows = direct.setdefault(StreamId(spec.id, name), [])
                spec = hooked(spec, partial(_DirectHook, name, rows))
            else:
                inputs.append(Subscription(StreamId(spec.id, name), CAPTURE, "global", (), GlobalGrouping))
        components[spec.id] = spec
    components[CAPTURE] = ComponentSpec(CAPTURE, "bolt", recorder, inputs=tuple(inputs))
    return replace(topology, components=components)


class _DirectHook(TaskHook):
    """Keeps what a task emits on one stream."""

    def __init__(self, stream: str, rows: list[Row]) -> None:
        self._stream = stream
        self._rows = rows

    def emit(self, values: Row, stream: str, task_id: int) -> None:
        if stream == self._stream:
            self._rows.append(values)


def _captured(topology: Topology, recorder: Recorder, direct: Streams) -> Streams:
    streams: Streams = {StreamId(spec.id, name): [] for spec in topology.components.values() for name in spec.outputs}
    for tup in recorder.tuples:
        streams[StreamId(tup.source_component, tup.stream)].append(tup.values)
    streams.update(direct)
    return streams
