"""Commands for a worker: from its parent only; one target, of those it was started for, once a process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from aiostorm import LocalCluster
from aiostorm.actors import ActorSystem
from aiostorm.cluster import TargetError
from aiostorm.cluster.messages import CONTROL, PARENT, SETUP, CommandFailed, GetStatus, ImportTopology, TaskGaveUp
from aiostorm.cluster.targets import import_topology, is_named
from aiostorm.cluster.worker import worker
from aiostorm.cluster.worker.importing import TopologyImporter, shape_of
from aiostorm.cluster.worker.peer_links import PeerLinks
from aiostorm.cluster.worker.service import WorkerService
from aiostorm.cluster.worker.snapshots import WorkerSnapshots
from aiostorm.runtime import AiostormError
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Node, NoSuchActorError, PayloadKind

from ...transport.parts import MemoryNetwork
from ..sim_workers import SimBackend, with_workers

TARGET = "tests.cluster.test_workers:topology"
PYTHON = ImportTopology("x", "builtins:exec", ("import tests.cluster.proof",), {}, {}, "")


def order(target: str = TARGET) -> ImportTopology:
    return ImportTopology("x", target, (), {}, {1: "w"}, shape_of(import_topology(TARGET)[1]))


class NoPost:
    """Of a worker that is alone."""

    name = "w"
    listen = link = None


@contextlib.asynccontextmanager
async def service(*targets: str) -> AsyncIterator[WorkerService]:
    async with ActorSystem("w") as system:
        importer, snapshots = TopologyImporter("w", targets), WorkerSnapshots(system, print)
        yield WorkerService(system, PeerLinks(NoPost(), ""), importer, snapshots, print)  # type: ignore[arg-type]


async def test_what_is_left_to_say_when_the_link_to_the_parent_is_closed_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "aiostorm.worker")
    async with ActorSystem("w") as system, Node("w", MemoryNetwork().seen_by("w"), system) as node:
        system.guard(worker._tell(node.ref(PARENT, "w"), CommandFailed("ValueError", ("x",))), name="w to its parent")
    assert "not sent, since this process ends: 'CommandFailed'" in caplog.text


@pytest.mark.parametrize("service", [SETUP, CONTROL])
def test_only_the_parent_reaches_the_service_of_a_worker(service: str) -> None:
    answers: list[AiostormError] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        await cluster.submit("sums", TARGET)

        async def intruder(process: Process) -> None:
            async with (
                ActorSystem("worker-2") as system,
                Node("worker-2", process.network, system) as node,
            ):
                for kind in (PayloadKind.CREDIT, PayloadKind.SEGMENTS, PayloadKind.TASK):
                    node.handle(kind, lambda peer, target, body: None)
                node.link("worker-1", "worker-1:1")
                message = PYTHON if service == SETUP else GetStatus(mode="ended")
                try:
                    await node.ref("worker-1", service).ask(message, timeout_s=2)
                except AiostormError as error:
                    answers.append(error)
                node.lose("worker-1", "all is known")

        process = world.process("intruder", intruder)
        process.start()
        await world.until(lambda: not process.alive, 20, "the intruder's end")

    with_workers(story)
    [answer] = answers
    assert isinstance(answer, NoSuchActorError)
    assert "tests.cluster.proof" not in sys.modules


def test_a_worker_cannot_report_in_the_name_of_another() -> None:
    answers: list[AiostormError] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("sums", TARGET)
        registry = cluster._registry
        assert registry is not None
        registry.node.link("worker-9")

        async def impostor(process: Process) -> None:
            async with ActorSystem("worker-9") as system, Node("worker-9", process.network, system) as node:
                node.link(PARENT, registry.address)
                for name in ("worker-1", "worker-9", PARENT):
                    try:
                        await node.ref(PARENT, name).ask(TaskGaveUp("/sums/any", "it is over", ""), timeout_s=2)
                    except AiostormError as error:
                        answers.append(error)
                node.lose(PARENT, "all is known")

        process = world.process("impostor", impostor)
        process.start()
        await world.until(lambda: not process.alive, 20, "the impostor's end")
        assert not running.errors()
        assert not running.unreported_failure

    with_workers(story)
    assert [type(answer) for answer in answers] == [NoSuchActorError] * 3


async def test_a_worker_loads_only_the_topology_that_it_was_started_for() -> None:
    async with service(TARGET) as one, service() as none:
        found = one.import_topology(PYTHON)
        assert found is not None
        assert (found.kind, found.problems) == (
            "TargetError",
            (f"worker w was not started for builtins:exec, but for {TARGET}: start it with --target builtins:exec",),
        )
        assert isinstance(none.import_topology(order()), CommandFailed), "nothing at all"


async def test_a_worker_loads_once() -> None:
    async with service(TARGET) as one, service(TARGET) as other:
        assert one.import_topology(order()) is None
        again = one.import_topology(replace(order(), arguments=("1",)))
        assert again is not None
        assert again.problems == ("worker w has already imported a topology: a process imports one only",)
        assert isinstance(other.import_topology(PYTHON), CommandFailed)
        assert isinstance(other.import_topology(order()), CommandFailed), (
            "a worker does not try one topology after the other"
        )


async def test_what_a_worker_has_loaded_may_get_other_numbers_of_tasks() -> None:
    topology = import_topology(TARGET)[1].with_parallelism({"sum": 7})
    other = replace(order(), shape=shape_of(topology), parallelism={"sum": 7})
    async with service(TARGET) as one:
        assert one.import_topology(order()) is None
        assert one.import_topology(other) is None
        wrong = one.import_topology(replace(other, parallelism={"summ": 7}))
        assert wrong is not None
        assert wrong.kind == "TopologyError"
        assert wrong.problems[0].startswith("there is no component 'summ': there are ")
        wrong = one.import_topology(replace(other, parallelism={"sum": 6}))
        assert wrong is not None
        assert "is not the same topology" in wrong.problems[0]
        assert one.import_topology(order()) is None


@pytest.mark.parametrize("target", ["builtins:exec", "os:system", "tests.cluster.sim_workers:asyncio.run"])
async def test_only_functions_that_the_module_defines_are_called(target: str) -> None:
    async with service(target) as one:
        found = one.import_topology(ImportTopology("x", target, ("1",), {}, {}, ""))
        assert found is not None
        assert found.kind == "TargetError"
        assert "no function that is defined in" in found.problems[0]


def test_a_function_from_elsewhere_is_refused_where_there_are_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from .. import spread_jobs, test_workers

    monkeypatch.setattr(test_workers, "elsewhere", spread_jobs.windows, raising=False)
    import_topology("tests.cluster.test_workers:elsewhere")
    with pytest.raises(TargetError, match="is no topology, and no function that is defined in"):
        import_topology("tests.cluster.test_workers:elsewhere", own=True)
    assert import_topology("tests.cluster.spread_jobs:windows", own=True)


def test_a_name_allows_any_arguments_unless_it_has_some() -> None:
    assert is_named("a.b:make", ["a.b:make"])
    assert is_named("a.b", ["a.b:topology"])
    assert is_named('a.b:make("x", n=3)', ["c", "a.b:make"])
    assert is_named('a.b:make("x")', ['a.b:make("x")'])
    assert not is_named('a.b:make("y")', ['a.b:make("x")'])
    assert not is_named("a.b:make", ['a.b:make("x")'])
    assert not is_named("a.b:made", ["a.b:make"])
    assert not is_named("b:make", ["a.b:make"])
    assert not is_named("jobs.py", ["jobs"])


def test_a_load_message_has_no_search_path_for_modules() -> None:
    assert not {"paths", "path"} & set(ImportTopology.__dataclass_fields__)
