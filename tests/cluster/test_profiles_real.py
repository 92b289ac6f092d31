"""A bolt that hangs in a worker which a supervisor has started is named with its line while it hangs: past its loop."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from aiostorm.cluster import find
from aiostorm.cluster.control import ask
from aiostorm.cluster.control.protocol import ProfileRequest
from aiostorm.cluster.coordination import open_coordination
from aiostorm.runtime import LoopClock, Profile
from aiostorm.transport import Security, open_network

from .test_cluster_real import Daemons, command, daemons, until
from .test_nodes_real import Nodes, certificates, nodes

__all__ = ["daemons", "nodes"]

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc, and at 127.0.0.2"),
]

HANGS = "tests.cluster.profile_jobs:hangs"


def test_on_one_machine(daemons: Daemons) -> None:
    async def story() -> None:
        daemons.nimbus()
        daemons.supervisor()
        await command(daemons, "submit", HANGS, "--name", "hangs-here", "--workers", "1", "--wait", "60")
        await _is_named("hangs-here")

    asyncio.run(story())


def test_over_tls(nodes: Nodes) -> None:
    pytest.importorskip("cryptography")

    async def story() -> None:
        made = certificates(nodes.folder, "127.0.0.1")
        nodes.nimbus()
        nodes.supervisor("a", "127.0.0.1", "--credentials", str(made / "127.0.0.1"))
        async with open_coordination(nodes.store, LoopClock()) as store:

            async def there() -> bool:
                return await store.get("/supervisors") is not None and len(await store.children("/supervisors")) == 1

            await until("the supervisor", there)
        await nodes.command("submit", HANGS, "--name", "hangs-there", "--workers", "1", "--wait", "60")
        await _is_named("hangs-there")

    asyncio.run(story())


async def _is_named(name: str) -> None:
    """The profile of the stall arrives within two seconds after the topology runs, and grows."""
    longest_s, begun_s = 0.0, time.monotonic()

    async def profiles() -> tuple[Profile, ...]:
        nonlocal longest_s
        asked_s = time.monotonic()
        async with open_network("client", Security()) as network:
            found: tuple[Profile, ...] = (await ask(network, find(name), ProfileRequest(0.0))).profiles
        await asyncio.sleep(0.02)
        longest_s = max(longest_s, time.monotonic() - asked_s)
        return found

    async with asyncio.timeout(30):
        while not (found := await profiles()):
            pass
    took_s = time.monotonic() - begun_s
    async with asyncio.timeout(30):
        while found[0].samples < 20:
            found = await profiles()
    [profile] = found
    assert took_s < 2.0 + 5 * longest_s  # the machine may have been busy
    assert (profile.worker, profile.blocked_s > 1) == ("worker-1", True)
    stack, _ = profile.stacks[0]
    assert stack.startswith("hangs[2];Hangs.execute (profile_jobs.py:")
    assert int(stack.rpartition(":")[2].rstrip(")")) in (14, 15, 16)
