"""ZooKeeper, a real server: every client's story, connections that break, sessions that end.

Runs where Debian's `zookeeper` (or another one with its jar in /usr/share/java) and Java are installed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from aiostorm.cluster.coordination import (
    Coordination,
    Create,
    DeposedError,
    Put,
    SessionLostError,
    UnavailableError,
    campaign,
    open_coordination,
)
from aiostorm.runtime import LoopClock

from .scenarios import STORIES, Open

JARS = Path("/usr/share/java")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(
        sys.platform == "win32" or shutil.which("java") is None or not (JARS / "zookeeper.jar").exists(),
        reason="no ZooKeeper here: apt install zookeeper",
    ),
]


class Server:
    """A ZooKeeper of its own on loopback."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "zoo.cfg").write_text(
            f"tickTime=200\ndataDir={folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nminSessionTimeout=400\nmaxSessionTimeout=60000\n"
        )
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["java", "-Xmx128m", "-cp", f"{JARS}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
        with (self._folder / "log").open("ab") as out:
            self._process = subprocess.Popen([*command, str(self._folder / "zoo.cfg")], stdout=out, stderr=out)
        limit_s = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
            assert time.monotonic() < limit_s, "ZooKeeper does not listen"
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(running_server: Server, request: pytest.FixtureRequest) -> str:
    """The URL of a root of its own for each test."""
    root = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]
    return f"zk://127.0.0.1:{running_server.port}/tests/{root}"


@pytest.mark.parametrize("story", STORIES)
async def test_every_story(story: Callable[[Open], Awaitable[None]], server: str) -> None:
    await story(lambda: open_coordination(server, LoopClock(), session_s=2))


async def until_status(client: Coordination, wanted: str) -> None:
    async with asyncio.timeout(30):
        while client.status != wanted:
            await client.status_other_than(client.status)


async def test_a_server_that_is_killed_and_started_again_ends_no_session(server: str, running_server: Server) -> None:
    async with open_coordination(server, LoopClock(), session_s=20) as client:
        await client.commit([Create("/a", b"1"), Create("/e", ephemeral=True)])
        watch = await client.watch("/a")
        await asyncio.to_thread(running_server.kill)
        await until_status(client, "suspended")
        with pytest.raises(UnavailableError, match="cannot be reached"):
            await client.commit([Put("/a", b"2")])
        await asyncio.to_thread(running_server.start)
        await until_status(client, "connected")
        assert await client.get("/e") is not None
        async with asyncio.timeout(10):
            await watch.changed()  # something may have changed meanwhile
        async with open_coordination(server, LoopClock(), session_s=5) as other:
            await other.commit([Put("/a", b"3")])
        async with asyncio.timeout(10):
            while (await client.get("/a")).value != b"3":  # type: ignore[union-attr]
                await watch.changed()


LEADING = """
import asyncio, sys
from aiostorm.cluster.coordination import campaign, open_coordination, Create, DeposedError, SessionLostError
from aiostorm.cluster.coordination import UnavailableError
from aiostorm.runtime import LoopClock

async def main():
    async with open_coordination(sys.argv[1], LoopClock(), session_s=1.0) as client:
        term = await campaign(client, b"child")
        print("leads", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for _ in range(100):
            try:
                await term.commit([Create("/stale")])
            except UnavailableError:
                await asyncio.sleep(0.05)
            except (DeposedError, SessionLostError) as error:
                print(type(error).__name__, flush=True)
                break

asyncio.run(main())
"""


async def test_a_leader_that_was_stopped_writes_nothing_when_it_goes_on(server: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADING, server, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"leads\n"
    async with open_coordination(server, LoopClock(), session_s=1) as client:
        os.kill(process.pid, signal.SIGSTOP)
        async with asyncio.timeout(10):
            term = await campaign(client, b"next")
        await term.commit([Create("/plan", b"of the next")])
        os.kill(process.pid, signal.SIGCONT)
        out, _ = await process.communicate(b"\n")
        assert out.strip() in (DeposedError.__name__.encode(), SessionLostError.__name__.encode())
        assert await client.get("/stale") is None


async def test_a_session_that_has_ended_is_lost_for_good(server: str) -> None:
    async with open_coordination(server, LoopClock(), session_s=5) as client:
        await client.commit([Create("/a"), Create("/e", ephemeral=True)])
        watch = await client.watch("/e")
        await asyncio.to_thread(end_session, client)
        await until_status(client, "lost")
        async with asyncio.timeout(10):
            await watch.changed()
        for call in (client.get("/a"), client.commit([Put("/a", b"")])):
            with pytest.raises(SessionLostError):
                await call
        await asyncio.sleep(1.0)
        assert client.status == "lost", "kazoo is connected again, in another session"
    async with open_coordination(server, LoopClock(), session_s=5) as other:
        assert await other.get("/e") is None


def end_session(client: Coordination) -> None:
    """As if its time were over: another connection takes the session over, and closes it."""
    kazoo = client._client  # type: ignore[attr-defined]
    other = KazooClient(hosts=f"127.0.0.1:{kazoo.hosts[0][1]}", client_id=kazoo.client_id)
    other.start(10)
    other.stop()
    other.close()


async def test_without_a_server_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.cluster.coordination.zookeeper.CONNECT_S", 1.0)
    with pytest.raises(UnavailableError, match="was not reached within 1 s"):
        async with open_coordination("zk://127.0.0.1:1/x", LoopClock()):
            pass
