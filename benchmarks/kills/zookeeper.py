"""A ZooKeeper server on loopback, for a cluster that is killed: Debian's, if it is installed."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

JARS = Path("/usr/share/java")
TICK_MS = 2000
"""ZooKeeper's default: it ends sessions at multiples of it."""

LEADER_LIMIT_S = 8 + TICK_MS / 1000
"""A session, and a tick: then another nimbus leads."""

START_S = 60.0


class NoZooKeeperError(RuntimeError):
    """There is none here: what to install."""


@asynccontextmanager
async def zookeeper(folder: Path) -> AsyncIterator[str]:
    """A server with its data in this folder, which is there. Gives the URL of a store on it. NoZooKeeperError."""
    if shutil.which("java") is None or not (JARS / "zookeeper.jar").exists():
        raise NoZooKeeperError("no ZooKeeper here: apt install zookeeper")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = folder / "zoo.cfg"
    configuration.write_text(
        f"tickTime={TICK_MS}\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
    )
    server = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration))
    with (folder / "zookeeper.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            "java", "-Xmx256m", "-cp", f"{JARS}/*", *server, stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(START_S):
            while not _answers(port):
                if process.returncode is not None:
                    raise NoZooKeeperError((folder / "zookeeper.log").read_text()[-3000:])
                await asyncio.sleep(0.05)
        yield f"zk://127.0.0.1:{port}/aiostorm"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
