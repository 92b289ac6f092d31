"""A store in a file: every client's story, with several processes, and one that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aiostorm.cluster.coordination import (
    Create,
    UnavailableError,
    campaign,
    leader,
    open_coordination,
)
from aiostorm.runtime import LoopClock

from .scenarios import STORIES, Open

pytestmark = pytest.mark.sockets


@pytest.mark.parametrize("story", STORIES)
async def test_every_story(story: Callable[[Open], Awaitable[None]], tmp_path: Path) -> None:
    await story(lambda: open_coordination(f"sqlite:{tmp_path}/store", LoopClock()))


LEADING = """
import asyncio, sys
from aiostorm.cluster.coordination import campaign, open_coordination, DeposedError, SessionLostError, Create, Put
from aiostorm.runtime import LoopClock

async def main():
    async with open_coordination(sys.argv[1], LoopClock(), session_s=1.0) as client:
        term = await campaign(client, b"child")
        print("leads", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            await term.commit([Create("/stale")])
        except (DeposedError, SessionLostError) as error:
            print(type(error).__name__, flush=True)

asyncio.run(main())
"""


async def leading(url: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADING, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"leads\n"
    return process


async def test_a_leader_that_is_killed_is_followed_at_once(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/store"
    process = await leading(url)
    async with open_coordination(url, LoopClock(), session_s=60) as client:
        waiting = asyncio.create_task(campaign(client, b"next"))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        assert await leader(client) == b"child"
        process.kill()
        async with asyncio.timeout(2):
            await waiting
        assert await leader(client) == b"next"
    await process.wait()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there are no stop signals")
async def test_a_leader_that_was_stopped_writes_nothing_when_it_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/store"
    process = await leading(url)
    os.kill(process.pid, signal.SIGSTOP)
    async with open_coordination(url, LoopClock(), session_s=1.0) as client:
        async with asyncio.timeout(5):
            await campaign(client, b"next")
        os.kill(process.pid, signal.SIGCONT)
        out, _ = await process.communicate(b"\n")
        assert out.strip() in (b"DeposedError", b"SessionLostError")
        assert await client.get("/stale") is None
    assert process.returncode == 0


async def test_a_file_that_is_away_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="file"):
        async with open_coordination(f"sqlite:{tmp_path}/file/store", LoopClock()):
            pass


async def test_clients_of_one_process_share_a_file(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/a%20store"
    async with open_coordination(url, LoopClock()) as one, open_coordination(url, LoopClock()) as two:
        await asyncio.gather(
            *[
                client.commit([Create(f"/{name}{number}")])
                for number in range(20)
                for client, name in ((one, "a"), (two, "b"))
            ]
        )
        assert len(await one.children("/")) == 40
    assert (tmp_path / "a store").is_file()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "a coordination store is sqlite:PATH"),
        ("etcd://host", "a coordination store is sqlite:PATH"),
        ("sqlite:", "names no file"),
        ("sqlite:/folder/", "names no file"),
        ("zk:host", "a coordination store is sqlite:PATH"),
        ("zk:///root", "names no host"),
        ("zk://user:secret@host/", "names no host"),
        ("zk://host/a//b", "a path has"),
    ],
)
async def test_other_urls_are_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        async with open_coordination(url, LoopClock()):
            pass
    assert "secret" not in str(raised.value)


def open_descriptors(path: Path) -> int:
    """How many of this process are of this file."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(each) == str(path)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
async def test_clients_beside_another_one_leave_no_more_than_one_descriptor(tmp_path: Path) -> None:
    # SQLite keeps that of a closed connection for the next one while another connection of the process has locks.
    path = tmp_path / "store"
    url = f"sqlite:{path}"
    async with open_coordination(url, LoopClock()) as client:
        found = []
        for _ in range(5):
            async with open_coordination(url, LoopClock()) as other:
                assert await other.get("/a") is None
            found.append(open_descriptors(path))
        assert max(found) <= 2
        await client.commit([Create("/a")])
    assert open_descriptors(path) == 0
