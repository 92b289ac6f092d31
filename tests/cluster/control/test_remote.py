"""A topology of another program: shown as it is, controlled, and kept as it was last when it has ended."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm import Config, ConfigError, LocalCluster, State, TopologyBuilder, bolt, spout
from aiostorm.cluster import (
    ControlError,
    RemoteTopologies,
    RemoteTopology,
    RunningTopology,
    TopologySocket,
    opened_remote,
)
from aiostorm.cluster.control import remote as module
from aiostorm.cluster.control import view as view_module
from aiostorm.cluster.control.orders import OrderRequest
from aiostorm.cluster.control.protocol import Control, ErrorResponse, ask, register
from aiostorm.cluster.control.remote import MOST_ENDED, read_view
from aiostorm.cluster.control.view import (
    MOST_CHARS,
    MOST_REPORT_CHARS,
    MOST_TRACES,
    VERSION,
    TracesRequest,
    ViewRequest,
    ViewResponse,
    opened,
    respond_traces,
    view_of,
)
from aiostorm.tasks import ErrorReport
from aiostorm.topology import make_plan
from aiostorm.transport import Network, pack_value

from ...transport.parts import MemoryNetwork


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(0.1)


@bolt
def even(n: int) -> None:
    if n % 2:
        raise ValueError(f"{n} is odd")


class Programs:
    """Programs of this user, each with a topology, and the control folder that lists them."""

    def __init__(self, cluster: LocalCluster, group: asyncio.TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        self.memory = MemoryNetwork()
        self.sockets: list[TopologySocket] = []
        self._group = group
        monkeypatch.setattr(module, "running_topologies", lambda: (list(self.sockets), []))
        monkeypatch.setattr(TopologySocket, "is_there", property(lambda socket: socket in self.sockets))

    @property
    def network(self) -> Network:
        return self.memory.seen_by("client")

    async def start(self, name: str = "numbers", pid: int = 7, config: Config | None = None) -> RunningTopology:
        builder = TopologyBuilder()
        builder.set_spout("numbers", numbers, max_retries=0)
        builder.set_bolt("even", even, 2).shuffle_grouping("numbers")
        running = await self.cluster.submit(f"{name}-{pid}", builder.create_topology(), config)
        running.name = name  # of one cluster no two have the same
        control = Control(running)
        target = TopologySocket(name, pid, f"/x/{pid}-{name}")
        self.memory.listeners[f"unix:{target.path}"] = lambda connection: control.accept(connection, self._group)
        self.sockets.append(target)
        return running

    def end(self, pid: int = 7) -> None:
        """The program has ended."""
        [target] = [one for one in self.sockets if one.pid == pid]
        self.sockets.remove(target)
        del self.memory.listeners[f"unix:{target.path}"]

    def answer(self, answer: Any, pid: int = 7) -> None:
        """A program that answers with this, whatever it is asked."""
        target = TopologySocket("numbers", pid, f"/x/{pid}-numbers")
        self.memory.listeners[f"unix:{target.path}"] = lambda connection: connection.send(answer)
        self.sockets.append(target)


@pytest.fixture
async def programs(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Programs]:
    async with LocalCluster() as cluster, asyncio.TaskGroup() as group:
        found = Programs(cluster, group, monkeypatch)
        yield found
        for running in list(cluster.topologies.values()):
            await running.end(0)


async def one(programs: Programs, **settings: Any) -> tuple[RunningTopology, RemoteTopology]:
    running = await programs.start(config=Config(max_spout_pending=5, **{"my.key": "mine"}, **settings))
    await asyncio.sleep(2)
    return running, RemoteTopology(
        programs.network, programs.sockets[0], await read_view(programs.network, programs.sockets[0])
    )


async def test_it_says_what_the_topology_says(programs: Programs) -> None:
    running, remote = await one(programs)
    for name, component in running.metrics().items():
        found = remote.metrics()[name]
        assert [task.task_id for task in found.tasks] == [task.task_id for task in component.tasks]
        assert (found.executed, found.acked, found.edges) == (component.executed, component.acked, component.edges)
        assert found.complete_latency == component.complete_latency
    assert remote.metrics().pending == running.metrics().pending
    assert remote.errors() == running.errors()
    assert remote.errors(), "there are some"
    assert remote.backpressure() == running.backpressure()
    assert (remote.state, remote.degraded, remote.workers()) == (running.state, "", [])
    assert remote.plan.tasks_of == running.plan.tasks_of
    assert remote.topology.to_svg() == running.topology.to_svg()
    assert remote.config == running.config
    assert remote.config.source_of("max_spout_pending") == "keyword"
    assert (remote.name, remote.started_s) == (running.name, running.started_s)
    assert remote.read_at_s - remote.started_s == pytest.approx(2, abs=0.1)


async def test_errors_are_sent_again_only_if_there_are_new_ones(programs: Programs) -> None:
    running, remote = await one(programs)
    await running.deactivate()
    await asyncio.sleep(1)
    await remote.refresh()
    before = remote.errors()
    assert view_of(running, view_of(running).tag).reports is None
    await remote.refresh()
    assert remote.errors() == before == running.errors()
    await running.activate()
    await asyncio.sleep(1)
    await remote.refresh()
    assert len(remote.errors()) > len(before)


async def test_it_is_read_again_only_if_it_is_older(programs: Programs) -> None:
    _, remote = await one(programs)
    at_s = remote.read_at_s
    await remote.refresh(1.5)
    assert remote.read_at_s == at_s
    await asyncio.sleep(2)
    await asyncio.gather(*(remote.refresh(1.5) for _ in range(5)))
    assert remote.read_at_s == pytest.approx(at_s + 2, abs=0.1)
    assert len([name for _, name in programs.memory.dialled]) == 2, "five that wait are one request"


async def test_only_what_is_looked_at_is_asked(programs: Programs) -> None:
    await programs.start()
    remote = RemoteTopologies(programs.network)
    await remote.scan()
    await asyncio.sleep(10)
    asked = len(programs.memory.dialled)
    await remote.refresh(looked_at=True)
    assert len(programs.memory.dialled) == asked
    remote.topologies["numbers"].metrics()
    await remote.refresh(looked_at=True)
    assert len(programs.memory.dialled) == asked + 1


async def test_orders_are_carried_out(programs: Programs) -> None:
    running, remote = await one(programs)
    await remote.deactivate()
    assert running.state is remote.state is State.INACTIVE
    await remote.activate()
    assert running.state is remote.state is State.ACTIVE
    changed = await remote.update({"max_spout_pending": 9})
    assert changed.max_spout_pending == running.config.max_spout_pending == 9
    with pytest.raises(ConfigError, match="cannot be changed"):
        await remote.update({"workers": 9})
    for refused in (remote.snapshot(), remote.snapshots()):
        with pytest.raises(ControlError, match="only exactly-once has snapshots"):
            await refused
    with pytest.raises(ControlError, match="'explode' is no order"):
        await ask(programs.network, remote.target, OrderRequest("explode"))  # type: ignore[arg-type]
    await remote.kill(0)
    assert running.state is remote.state is State.KILLED


async def test_a_tuple_tree_is_traced(programs: Programs) -> None:
    running, remote = await one(programs)
    assert (remote.untraced, remote.traces()) == (running.untraced, [])
    trace = await remote.trace("even")
    assert trace.passes("even")
    assert remote.traces() == [trace]
    with pytest.raises(ControlError):
        await remote.trace("none")


async def test_the_trees_that_were_traced_there_are_listed_and_kept(programs: Programs) -> None:
    running, remote = await one(programs, trace_one_in=1)
    assert remote.traces() == []
    await remote.refresh_traces()
    found = remote.traces()
    assert (found, len(found) > 5) == (running.traces(), True)
    await asyncio.sleep(20)
    await remote.refresh_traces()
    assert remote.traces() == running.traces()[:MOST_TRACES]
    known = tuple(trace.id for trace in running.traces() if trace.complete_s is not None)
    assert respond_traces(running, TracesRequest(known[1:])).traces == (running.traces()[0],)
    kept = remote.traces()
    programs.end()
    await remote.refresh_traces()
    assert "has ended" in remote.degraded
    await remote.refresh()
    await remote.refresh_traces()
    assert (remote.state, remote.traces()) == (State.KILLED, kept)


async def test_a_response_has_the_newest_trees_that_fit(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await programs.start(config=Config(trace_one_in=1))
    await asyncio.sleep(1)
    monkeypatch.setattr(view_module, "MOST_SPANS", 3)
    assert respond_traces(running, TracesRequest()).traces == tuple(running.traces()[:3])


async def test_a_kill_that_drains_long_goes_on(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    running, remote = await one(programs)
    drained = asyncio.Event()

    async def drain(wait_s: float | None) -> None:
        await drained.wait()

    monkeypatch.setattr(running, "kill", drain)
    with pytest.raises(TimeoutError, match="still being drained"):
        await remote.kill()


async def test_one_that_has_ended_stays_as_it_was(programs: Programs) -> None:
    _, remote = await one(programs)
    before = remote.metrics()["even"].executed
    programs.end()
    await remote.refresh()
    assert (remote.state, remote.degraded) == (State.KILLED, "numbers (pid 7) has ended")
    assert remote.metrics()["even"].executed == before
    assert not remote.is_looked_at
    await remote.refresh()
    with pytest.raises(ControlError, match="has ended"):
        await remote.activate()


async def test_one_that_does_not_answer_says_so_until_it_does(programs: Programs) -> None:
    _, remote = await one(programs)
    path = f"unix:{remote.target.path}"
    answers = programs.memory.listeners[path]
    programs.memory.listeners[path] = lambda connection: None
    await remote.refresh()
    assert "has not answered within 2 s: does user code block its event loop?" in remote.degraded
    assert remote.state is State.ACTIVE
    programs.memory.listeners[path] = answers
    await remote.refresh()
    assert remote.degraded == ""


async def test_a_scan_finds_those_that_begin_and_end(programs: Programs) -> None:
    remote = RemoteTopologies(programs.network)
    assert await remote.scan() == []
    await programs.start()
    await programs.start(pid=8)
    assert await remote.scan() == []
    assert list(remote.topologies) == ["numbers", "numbers@8"]
    first = remote.topologies["numbers"]
    programs.end()
    assert await remote.scan() == ["numbers (pid 7) has ended"]
    assert await remote.scan() == []
    assert remote.topologies["numbers"] is first
    assert first.state is State.KILLED
    await programs.start(pid=9)
    await remote.scan()
    assert remote.topologies["numbers"].pid == 9, "it takes the place of the one that has ended"
    assert set(remote.topologies) == {"numbers", "numbers@8"}


async def test_only_what_is_named_is_shown(programs: Programs) -> None:
    await programs.start("a", 7)
    await programs.start("b", 8)
    for wanted, names in (("a", ["a"]), ("b@8", ["b"]), ("b@9", []), ("c", []), ("", ["a", "b"])):
        remote = RemoteTopologies(programs.network, wanted)
        await remote.scan()
        assert list(remote.topologies) == names


async def test_those_that_have_ended_have_an_end(programs: Programs) -> None:
    remote = RemoteTopologies(programs.network)
    for i in range(MOST_ENDED + 5):
        await programs.start(f"n{i}", i + 1)
        await remote.scan()
        programs.end(i + 1)
        await remote.scan()
    assert len(remote.topologies) <= MOST_ENDED + 1


async def test_other_versions_are_refused_by_name_and_once(programs: Programs) -> None:
    register()
    older = ErrorResponse("UnreadableError", ("the only requests are for the status, and to change settings",))
    programs.answer(pack_value(older), 3)
    programs.answer(pack_value(ViewResponse(VERSION + 1, "9.9", b"")), 4)
    programs.answer(pack_value(ViewResponse(VERSION, "0.0.9", pack_value("a text"))), 5)
    programs.answer(pack_value(ViewResponse(VERSION, "0.0.9", b"\xc1")), 6)
    remote = RemoteTopologies(programs.network)
    words = await remote.scan()
    assert len(words) == 4
    assert "numbers (pid 3) runs another version of aiostorm" in words[0]
    assert f"numbers (pid 4) runs aiostorm 9.9 (version {VERSION + 1} of what it shows to others)" in words[1]
    assert "numbers (pid 5) runs aiostorm 0.0.9" in words[2]
    assert "numbers (pid 6) runs aiostorm 0.0.9" in words[3]
    assert await remote.scan() == []
    assert not remote.topologies


async def test_a_newer_client_gets_an_answer_without_a_view(programs: Programs) -> None:
    await programs.start()
    answer = await ask(programs.network, programs.sockets[0], ViewRequest(VERSION + 1))
    assert isinstance(answer, ViewResponse)
    assert (answer.version, answer.view) == (VERSION, b"")
    with pytest.raises(ControlError, match="runs aiostorm"):
        opened(answer, programs.sockets[0])


async def test_a_view_that_contradicts_itself_is_refused(programs: Programs) -> None:
    running, remote = await one(programs)
    good = view_of(running)
    for wrong in ({"graph": {}}, {"tasks": (("numbers", (5,)),)}, {"metrics": (("a", "bolt", ((1,),)),)}):
        view = dataclasses.replace(good, **wrong)  # type: ignore[arg-type]
        with pytest.raises(ControlError, match="sends what cannot be shown"):
            RemoteTopology(programs.network, remote.target, view)


async def test_reports_have_an_end(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await programs.start()
    long = ErrorReport("numbers", "even", 3, "execute", "e" * 50_000, "t" * 50_000 + "end", "x" * 50_000, 1.0)
    many = [dataclasses.replace(long, time=float(i)) for i in range(200)]
    monkeypatch.setattr(running, "errors", lambda: many)
    reports = view_of(running).reports
    assert reports is not None
    assert reports.errors[-1].time == 199.0, "the newest are kept"
    assert reports.errors[-1].traceback.endswith("end")
    assert len(reports.errors[-1].error) == MOST_CHARS
    assert sum(len(e.error) + len(e.traceback) + len(e.tuple or "") for e in reports.errors) <= MOST_REPORT_CHARS
    assert opened(await ask_view(programs), programs.sockets[0]).reports == reports, "it fits into a frame"


async def ask_view(programs: Programs) -> Any:
    return await ask(programs.network, programs.sockets[0], ViewRequest())


async def test_a_topology_that_is_too_large_says_what_to_do(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await programs.start()
    state = dataclasses.replace(running.backpressure(), state="x" * 2_000_000)
    monkeypatch.setattr(running, "backpressure", lambda: state)
    with pytest.raises(ControlError, match=r"numbers \(pid 7\): it is too large .* start it with --ui"):
        await ask_view(programs)


async def test_one_is_opened_by_its_name(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await programs.start()
    monkeypatch.setattr(module, "find", lambda wanted: programs.sockets[0])
    remote = await opened_remote(programs.network, "numbers")
    assert remote.plan.tasks == make_plan(running.topology, running.config).tasks


async def test_a_program_that_dies_between_two_scans_is_not_shown(programs: Programs) -> None:
    programs.sockets.append(TopologySocket("other", 5, "/x/5-other"))
    remote = RemoteTopologies(programs.network)
    [words] = await remote.scan()
    assert words.startswith("other (pid 5)")
    assert not remote.topologies
