"""`aiostorm logs --nimbus` of a topology on two nodes, with TLS: merged, followed, while one of them is away."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest

from aiostorm.cluster.coordination import open_coordination
from aiostorm.runtime import LoopClock

from .test_cluster_real import until
from .test_nodes_real import Nodes, certificates, nodes
from .test_workers_real import JOBS, ROOT

__all__ = ["nodes"]

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc, and at 127.0.0.2"),
]


def test_logs_of_two_nodes(nodes: Nodes) -> None:
    pytest.importorskip("cryptography")
    asyncio.run(_logs(nodes))


async def _logs(nodes: Nodes) -> None:
    made = certificates(nodes.folder, "127.0.0.1", "127.0.0.2")
    nodes.start("n", "nimbus", "--blobs", nodes.blobs, "--credentials", str(made / "127.0.0.1"))
    for name, host in {"a": "127.0.0.1", "b": "127.0.0.2"}.items():
        nodes.supervisor(name, host, "--credentials", str(made / host))
    async with open_coordination(nodes.store, LoopClock()) as store:

        async def all_there() -> bool:
            return await store.get("/supervisors") is not None and len(await store.children("/supervisors")) == 2

        await until("two supervisors", all_there)
    out = nodes.folder / "out"
    out.mkdir()
    target = (f"{JOBS}:lasting", str(out), "100000", "0.05")
    await nodes.command("submit", *target, "--name", "numbers", "--workers", "2", "--wait", "60")
    where: dict[str, str] = json.loads(await nodes.command("show", "numbers", "--json"))["where"]
    assert set(where.values()) == {"a", "b"}
    token = nodes.folder / "ann.token"
    home = ("--home", str(nodes.home("n").path))
    await _asked("token", "add", "ann", "--role", "viewer", "--out", str(token), *home)
    asked = ("--nimbus", f"aiostorm://{nodes.home('n').nimbus_socket}", "--token-file", str(token))
    document = json.loads(await _asked("logs", "numbers", "--json", *asked))
    assert {(each["process"], each["node"]) for each in document["lines"]} == set(where.items())
    assert document["away"] == {}
    assert "no logs of 'worker-9'" in await _asked("logs", "numbers", "worker-9", *asked, fails=2)
    assert "did you mean 'numbers'" in await _asked("logs", "numbres", *asked, fails=2)
    following = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "aiostorm", "logs", "numbers", "-f", *asked),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    await _shows(following, "worker-2@", "|")
    away = where["worker-2"]
    log = nodes.home(away).log("numbers", "worker-2")
    nodes.running[away].send_signal(signal.SIGKILL)
    nodes.running.pop(away).wait()
    await _shows(following, f"{away}: ", "goes on when it is back")
    with log.open("a") as file:  # its processes live on
        file.write("written while it was away\n")
    host = "127.0.0.1" if away == "a" else "127.0.0.2"
    nodes.supervisor(away, host, "--credentials", str(made / host))
    await _shows(following, f"{away} is back")
    await _shows(following, f"worker-2@{away}", "written while it was away")
    following.send_signal(signal.SIGINT)
    rest, _ = await following.communicate()
    assert (following.returncode, b"Traceback" in rest) == (130, False)


async def _shows(process: asyncio.subprocess.Process, *parts: str) -> None:
    """A line of it has all of these."""
    assert process.stdout is not None
    seen = ""
    async with asyncio.timeout(40):
        while line := (await process.stdout.readline()).decode():
            seen += line
            if all(part in line for part in parts):
                return
    pytest.fail(f"it ended without {parts}: {seen}")


async def _asked(*words: str, fails: int = 0) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiostorm", *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == fails, f"{words}: {out.decode()}{err.decode()}"
    return (out if not fails else err).decode()
