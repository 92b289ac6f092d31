"""A supervisor with cgroups: each process has one, also after the supervisor was started again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiostorm.cluster.nimbus import ASSIGNMENTS
from aiostorm.cluster.supervisor import CgroupTree, prefix_of
from aiostorm.cluster.supervisor.cgroups import SUPERVISOR_GROUP

from .kernel import FakeKernel
from .test_supervisor import ALL, SOON_S, WORKER_1, world


async def test_each_process_has_a_cgroup_and_what_the_system_says_is_said(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg")
    async with world() as made:
        made.more = (CgroupTree.opened(kernel.mounted, prefix_of("home", "a"), kernel),)
        await made.submit()
        async with made.supervised():
            pids = {key: str(pid) for key, pid in made.machine.running().items()}
            groups = {pid: group for group in kernel.groups() for pid in kernel.pids(group)}
            assert set(groups) == set(pids.values())
            kernel.out_of_memory(groups[pids[WORKER_1]])
            made.machine.end(WORKER_1, -9)
            await asyncio.sleep(SOON_S)
            why = "the system ended it: memory was short, and not for a limit of its own"
            assert made.launching.noted == [(WORKER_1, f"{why} (aiostorm submit --worker-memory)")]
            assert not groups[pids[WORKER_1]].exists()
            assert made.machine.running().keys() == ALL  # another one, with a cgroup
        async with made.supervised():  # it adopts them
            assert len(kernel.groups()) == 1 + len(ALL)
            await made.delete(ASSIGNMENTS, "words")
            await asyncio.sleep(15.0)
        assert [group.name for group in kernel.groups()] == [SUPERVISOR_GROUP]
