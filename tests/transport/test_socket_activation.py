"""Socket activation: nothing is imported before the first connection, and no connection is lost."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aiostorm.transport import AdmissionLimits, Connection, NetworkError, WebSocketNetwork, serve_on_demand

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="unix sockets"),
]

LIMITS = AdmissionLimits()


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not ready():  # noqa: ASYNC110 - a file is waited for
            await asyncio.sleep(0.002)


async def test_connections_before_there_was_a_network_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "s" / "a"

    def echo(connection: Connection) -> None:
        group.create_task(answer(connection))

    async def answer(connection: Connection) -> None:
        connection.send(b"you said " + await connection.receive())

    async with WebSocketNetwork() as network, asyncio.TaskGroup() as group:
        serving = group.create_task(serve_on_demand(str(path), echo, LIMITS))
        await until(path.exists)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        callers = await asyncio.gather(*(network.connect(f"unix:{path}") for _ in range(5)))
        for number, caller in enumerate([*callers, await network.connect(f"unix:{path}")]):
            caller.send(b"%d" % number)
            assert await caller.receive() == b"you said %d" % number
        serving.cancel()
    assert not path.exists()


async def test_a_connection_that_was_closed_again_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "s" / "a"
    came: list[Connection] = []
    async with WebSocketNetwork() as network, asyncio.TaskGroup() as group:
        serving = group.create_task(serve_on_demand(str(path), came.append, LIMITS))
        await until(path.exists)
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.transport.abort()
        await network.connect(f"unix:{path}")
        await until(lambda: len(came) == 1)
        serving.cancel()


async def test_without_a_caller_it_ends_as_it_began(tmp_path: Path) -> None:
    path = tmp_path / "s" / "a"
    serving = asyncio.ensure_future(serve_on_demand(str(path), lambda connection: None, LIMITS))
    await until(path.exists)
    with pytest.raises(NetworkError, match="another process listens at"):
        await serve_on_demand(str(path), lambda connection: None, LIMITS)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not path.exists()


SCRIPT = """
import asyncio, sys
from aiostorm.transport import AdmissionLimits, serve_on_demand

async def main():
    serving = asyncio.ensure_future(serve_on_demand(sys.argv[1], lambda connection: None, AdmissionLimits()))
    await asyncio.sleep(0.05)
    assert "aiohttp" not in sys.modules
    serving.cancel()

asyncio.run(main())
"""


def test_nothing_is_imported_before_the_first_connection(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "s" / "a")], check=True, timeout=60)
