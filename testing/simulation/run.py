"""Simulation: a topology in a seeded world, from warm-up to the last ack.

    warm up ─► faults (safety is checked) ─► heal ─► liveness (everything is acked, in time) ─► end ─► nothing is left

1. Safety, always: no message is settled twice in an attempt; asyncio reports no error; no mailbox holds more than its
   capacity; user code runs in a living process only.
2. Liveness, once all is healed: every row of every source is acked (or was given up), and the topology is idle, within
   a bound that its message timeout gives.
3. At the end nothing is left: open messages, acker rows, rows in mailboxes, asyncio tasks.
4. A violation is an InvariantError at the end of `run`; a test's own assertions come after it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from ...topology import Config, Fields, Topology
from .bolt_errors import BoltErrors
from .endpoints import Sink, Source, replaced
from .errors import InvariantError
from .faults import Fault, FaultScript, kinds_of
from .invariants import remains, unacked
from .process import ProcessDiedError
from .topology_process import TopologyProcess

if TYPE_CHECKING:
    from ...cluster import RunningTopology
    from .world import World

WARM_UP_S: Final = 2.0
FAULTS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `digest` is the same in every run of the same seed and script; times are virtual seconds."""

    seed: int
    digest: str
    script: tuple[Fault, ...]
    simulated_s: float
    recovered_s: float
    """From the end of the faults until everything was acked."""
    incarnations: int
    messages: int
    """What was sent between tasks."""
    emitted: int
    acked: int
    failed: int


class Simulation:
    """The fixture of a test marked `simulate`. `seed` is this run's; `only` cuts the fault script down (by index)."""

    def __init__(self, world: World, faults: str | Collection[str] | None = None, only: Collection[int] | None = None):
        self.world = world
        self.faults = FaultScript(kinds_of(faults), only)
        self.sources: list[Source] = []
        self.outcome: Outcome | None = None
        self.healed_s = math.inf
        """When the faults ended (true seconds)."""
        self._bolt_errors = BoltErrors(world.chance.stream("injuries"))
        self._host: TopologyProcess | None = None

    @property
    def seed(self) -> int:
        return self.world.seed

    # -- what a test makes its topology of ---------------------------------------------------------------------------

    def source(self, rows: Iterable[Any], *fields: str, max_replays: int | None = None) -> Source:
        """A spout that offers these rows during the run, and again until each is acked; see endpoints.py.

        `max_replays`: a message that fails more often is given up (`source.given_up`); None: never.
        """
        made = Source(self.world, f"source {len(self.sources)}", rows, Fields(*fields), max_replays)
        self.sources.append(made)
        return made

    def sink(self) -> Sink:
        """A bolt that keeps what comes, also over crashes."""
        return Sink(self.world)

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(
        self,
        topology: Topology,
        config: Config | Mapping[str, Any] | None = None,
        *,
        replace: Mapping[str, Source | Sink] | None = None,
        faults_s: float = FAULTS_S,
        liveness_s: float | None = None,
        check: Callable[[], Iterable[str]] | None = None,
    ) -> Outcome:
        """Run a topology through all phases. InvariantError if a promise is broken.

        `replace`: component → a source or a sink of this simulation in its place, for components that read from or
        write to the real world (ScriptError if it does not fit). `faults_s`: how long faults are injected.
        `liveness_s`: how long recovery may take afterwards; by default what the message timeout allows. `check()` may
        name more broken promises, at the end.
        """
        __tracebackhide__ = methodcaller("errisinstance", InvariantError)  # pytest shows the test's line only
        world = self.world
        if self._host is not None:
            raise RuntimeError("a simulation runs once: each seed needs its own")
        if asyncio.get_running_loop() is not world.driver.loop:
            raise RuntimeError("a simulation runs in the loop of its own world (function scope), and this is another")
        topology = replaced(topology, replace or {})
        settings = Config().merge(topology.config).merge(config)
        faults_from_s = world.now_s + WARM_UP_S
        self.faults.draw(world.chance.stream("script"), faults_from_s, faults_s)
        if "error" in self.faults.kinds:
            topology = self._bolt_errors.with_errors(topology)
        for source in self.sources:
            source.offer_between(world.now_s, faults_from_s + faults_s * 0.9)
        host = self._host = TopologyProcess(world, topology, config, self._bolt_errors)
        host.process.start()
        await asyncio.sleep(WARM_UP_S)
        host.operator.schedule(self.faults.script)
        await world.until(lambda: world.now_s >= faults_from_s + faults_s, faults_s + 1, "the faults' end")
        host.operator.heal()
        healed_s = self.healed_s = world.now_s
        await self._recover(host, liveness_s if liveness_s is not None else _bound_s(settings))
        recovered_s = world.now_s - healed_s
        if not world.problems:
            await self._end(host, settings)
        if check is not None:
            for problem in check():
                world.problem(problem)
        self.outcome = self._outcome(host, recovered_s)
        world.check()
        return self.outcome

    def is_up(self) -> RunningTopology | None:
        """The running topology, if there is one right now."""
        return self._host.is_up() if self._host is not None else None

    @property
    def over(self) -> bool:
        """Was the topology stopped?"""
        return self._host is not None and self._host.stopped

    async def _recover(self, host: TopologyProcess, bound_s: float) -> None:
        """Liveness: within the bound everything is acked and idle."""
        end_s = self.world.now_s + bound_s
        while True:
            left_s = end_s - self.world.now_s
            try:
                await self.world.until(
                    lambda: self._is_up_and_acked() or bool(self.world.problems), left_s, "every ack"
                )
                if self.world.problems:
                    return
                await host.call(lambda running: running.wait_idle(max(0.1, end_s - self.world.now_s)))
                return
            except ProcessDiedError:
                continue
            except TimeoutError:
                self.world.problem(self._stuck(bound_s))
                return

    def _is_up_and_acked(self) -> bool:
        return self.is_up() is not None and not any(source.left for source in self.sources)

    async def _end(self, host: TopologyProcess, settings: Config) -> None:
        """Stop, and check whether anything is left."""
        running = host.is_up()
        if running is None:
            return
        # Messages after the end of their tree (a late ack makes a new acker row) expire with the timeout.
        await asyncio.sleep(1.2 * settings.message_timeout_s)
        try:
            await host.call(lambda running: running.wait_idle(settings.message_timeout_s))
        except (TimeoutError, ProcessDiedError):
            self.world.problem("the topology was idle and all was acked, and then it was not idle any more")
            return
        for problem in remains(running):
            self.world.problem(problem)
        host.stop()
        bound_s = settings.graceful_stop_s + settings.message_timeout_s + 60
        try:
            await self.world.until(lambda: not host.process.alive, bound_s, "the process's end")
        except TimeoutError:
            self.world.problem(f"the process did not end in {bound_s:g} s")

    # -- what it says ------------------------------------------------------------------------------------------------

    def _stuck(self, bound_s: float) -> str:
        lines = [f"{bound_s:g} s after the last fault not everything is acked and idle"]
        for source in self.sources:
            left = source.left
            if left:
                worst = left[0]
                failure = source.last_failure.get(worst)
                often = f"emitted {source.emitted.get(worst, 0)} times"
                last = f", and failed by {failure.error or failure.reason}" if failure is not None else ""
                lines.append(
                    f"{len(left)} of {len(source.rows)} messages of {source._state.name!r} are not acked; "
                    f"message {worst} {source.rows[worst]!r:.100} was {often}{last}"
                )
        running = self.is_up()
        if running is None:
            lines.append("the process does not run")
        else:
            lines += unacked(running)
            lines += [f"error: {report}" for report in running.errors()[-3:]]
        return "\n    ".join(lines)

    def _outcome(self, host: TopologyProcess, recovered_s: float) -> Outcome:
        return Outcome(
            seed=self.seed,
            digest=self.world.trace.digest,
            script=tuple(self.faults.script),
            simulated_s=self.world.now_s,
            recovered_s=recovered_s,
            incarnations=host.process.incarnation,
            messages=host.carried,
            emitted=sum(sum(source.emitted.values()) for source in self.sources),
            acked=sum(len(source.acked) for source in self.sources),
            failed=sum(source.failed for source in self.sources),
        )


def _bound_s(settings: Config) -> float:
    # A lost attempt is noticed after a timeout; a failed message is offered again at once.
    return 60.0 + 4 * settings.message_timeout_s
