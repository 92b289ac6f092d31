"""A cluster of several nodes, as real processes: each node has a home folder and an address of its own, 127.0.0.N.

They share the store, a file of this machine, and the place of code. What is submitted comes from a home of its own, as
from another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiostorm.cli import cli
from aiostorm.cluster.coordination import Coordination, open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import ASSIGNMENTS, TOPOLOGIES, AssignmentRecord, ParentRecord, path_of, unpack
from aiostorm.runtime import LoopClock

from .spread_jobs import written
from .test_cluster_real import parent_of, until
from .test_workers_real import ROOT

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc, and at 127.0.0.2"),
]

COUNT = 3_000
PAUSE_S = 0.02
WITHIN_S = 8.5 + 15.0
"""A lost node: until its processes are moved, and their start on a busy machine (benchmarks.kills.cluster measures)."""


class Nodes:
    """The daemons of a cluster of several nodes, and their processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:{folder}/s/cluster.db"
        self.blobs = f"file://{folder}/blobs"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "s").mkdir(mode=0o700)

    def home(self, name: str) -> Home:
        return Home(self.folder / name)

    def words(self, name: str, *words: str) -> list[str]:
        home = ("--home", str(self.home(name).path), "--store", self.store)
        return [sys.executable, "-m", "aiostorm", *words, *home]

    def start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(self.words(name, *words), cwd=ROOT, stdout=log, stderr=log)

    def nimbus(self) -> None:
        self.start("n", "nimbus", "--blobs", self.blobs)

    def supervisor(self, name: str, host: str, *words: str) -> None:
        self.start(name, "supervisor", "--id", name, "--slots", "2", "--host", host, *words)

    def kill(self, name: str) -> None:
        """The daemon and all processes that it has started."""
        process = self.running.pop(name)
        process.kill()
        process.wait()
        for pid in self.left(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left(self, name: str) -> set[int]:
        """The processes of topologies on a node: those that have a log open in its home."""
        found = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                links = (os.readlink(link) for link in (entry / "fd").iterdir())
                if entry.name.isdecimal() and any(
                    link.startswith(f"{self.home(name).path / 'logs'}/") for link in links
                ):
                    found.add(int(entry.name))
        return found - {os.getpid()}

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    async def command(self, *words: str, fails: int = 0) -> str:
        """What a command of another machine prints."""
        process = await asyncio.create_subprocess_exec(
            *self.words("client", *words), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        out, _ = await process.communicate()
        assert process.returncode == fails, f"{words}: {out.decode()}"
        return out.decode()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with tempfile.TemporaryDirectory(prefix="no") as folder:
        made = Nodes(Path(folder))
        try:
            yield made
        finally:
            for name in list(made.running):
                made.kill(name)


def certificates(folder: Path, *hosts: str) -> Path:
    """What one command makes for these nodes."""
    options = [word for host in hosts for word in ("--node", host)]
    made = CliRunner().invoke(cli, ["certs", "init", str(folder / "certs"), "--cluster", "test", *options])
    assert made.exit_code == 0, made.output
    return folder / "certs" / "nodes"


async def assignment_of(store: Coordination, name: str) -> AssignmentRecord | None:
    path = path_of(ASSIGNMENTS, name)
    node = await store.get(path)
    return None if node is None else unpack(AssignmentRecord, path, node.value)


JOBS = (Path(__file__).with_name("spread_jobs.py")).read_text()


def test_a_topology_on_two_nodes_with_tls_survives_the_loss_of_that_of_its_parent(nodes: Nodes) -> None:
    pytest.importorskip("cryptography")
    asyncio.run(_loses_its_parent(nodes))


async def _loses_its_parent(nodes: Nodes) -> None:
    hosts = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}
    made = certificates(nodes.folder, *hosts.values())
    nodes.nimbus()
    for name, host in hosts.items():
        nodes.supervisor(name, host, "--credentials", str(made / host))
    out, code = nodes.folder / "out", nodes.folder / "code"
    out.mkdir()
    code.mkdir()
    (code / "shipped_jobs.py").write_text(JOBS)
    async with open_coordination(nodes.store, LoopClock()) as store:

        async def all_there() -> bool:
            return await store.get("/supervisors") is not None and len(await store.children("/supervisors")) == 3

        await until("three supervisors", all_there)
        target = ("shipped_jobs:lasting", str(out), str(COUNT), str(PAUSE_S), "--code", str(code))
        await nodes.command("submit", *target, "--name", "numbers", "--workers", "3", "--wait", "60")
        assignment, parent = await assignment_of(store, "numbers"), await parent_of(store, "numbers")
        assert assignment is not None
        assert parent is not None
        assert sorted(assignment.workers) == ["a", "b", "c"]
        assert parent.address.startswith(f"{hosts[assignment.parent]}:")
        shown = json.loads(await nodes.command("nodes", "--json"))
        assert {each["name"]: each["address"] for each in shown["nodes"]} == hosts

        async def works() -> bool:
            return len(written(out)) > 200

        await until("some work", works)
        took_s = await _lose(nodes, store, assignment.parent, parent)
        assert took_s <= WITHIN_S, f"the topology ran again after {took_s:.1f} s"
        out.with_suffix(".ends").touch()

        async def is_out() -> bool:
            return await store.get(path_of(TOPOLOGIES, "numbers")) is None

        await until("it has finished, and is taken out", is_out, 90)
    assert set(written(out)) == set(range(COUNT))

    async def ended() -> bool:
        return not any(nodes.left(name) for name in hosts)

    await until("all its processes have ended", ended)


async def _lose(nodes: Nodes, store: Coordination, node: str, parent: ParentRecord) -> float:
    """A node is lost whole, and does not come back. How long until all of the topology runs elsewhere."""
    began_s = time.monotonic()
    nodes.kill(node)

    async def elsewhere() -> bool:
        record, assignment = await parent_of(store, "numbers"), await assignment_of(store, "numbers")
        return (
            record is not None
            and assignment is not None
            and record.process != parent.process
            and record.state == "ACTIVE"
            and not record.degraded
            and node not in (assignment.parent, *assignment.workers)
        )

    await until(f"all of it runs elsewhere than on {node}", elsewhere, 40)
    return time.monotonic() - began_s


def test_what_could_not_work_together_is_refused_with_what_to_do(nodes: Nodes) -> None:
    asyncio.run(_refused(nodes))


async def _refused(nodes: Nodes) -> None:
    nodes.start("n", "nimbus")  # code in the home folder: of one machine
    nodes.supervisor("a", "127.0.0.1")
    async with open_coordination(nodes.store, LoopClock()) as store:

        async def there() -> bool:
            return await store.get("/supervisors") is not None and len(await store.children("/supervisors")) == 1

        await until("the supervisor", there)
    says = {
        ("--host", "127.0.0.2"): "has other credentials",
        (): "is reached at 127.0.0.1: give this one an address",
    }
    for number, (words, said) in enumerate(says.items()):
        nodes.start(f"x{number}", "supervisor", "--id", f"x{number}", *words)
        assert await asyncio.to_thread(nodes.running.pop(f"x{number}").wait, 30) == 78
        assert said in nodes.log(f"x{number}")
    jobs = "tests.cluster.spread_jobs:numbers"
    exact = ("submit", jobs, "x", "--name", "exact", "--guarantee", "exactly-once", "--no-check")
    assert "file://" in await nodes.command(*exact, "--state", str(nodes.folder), fails=2)
    assert "topology.state.dir is not set" in await nodes.command(*exact, fails=2)
    code = ("submit", jobs, "x", "--name", "code", "--no-check", "--code", str(Path(__file__).parent))
    assert "aiostorm nimbus --blobs URL" in await nodes.command(*code, fails=2)
    assert "no topologies" in await nodes.command("list")
