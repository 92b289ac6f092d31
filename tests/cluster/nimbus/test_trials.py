"""A rebalance, or other code, that does not come to run is taken back, also if its parent cannot say so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiostorm.cluster.coordination import (
    Create,
    Delete,
    Put,
)
from aiostorm.cluster.nimbus import (
    PARENTS,
    SUPERVISORS,
    FailedProcess,
    ParentRecord,
    SupervisorRecord,
    pack,
    path_of,
    rebalance,
    replace_code,
    submit,
)
from aiostorm.cluster.nimbus.trials import TRIAL_S

from .parts import SOON_S, TWO, cluster


async def test_code_that_ends_its_parent_is_taken_back() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        record = await replace_code(made.client, "words", lambda before: replace(before, target="words:worse"))
        await asyncio.sleep(SOON_S)
        assert await made.topology("words") == record
        ended = FailedProcess("words", "parent", 2, record.submitted_s, "exit code 1")
        await made.client.commit(
            [
                Put(path_of(SUPERVISORS, "a"), pack(SupervisorRecord("host", "address", 2, failed=(ended,)))),
                Put(SUPERVISORS, b""),
            ]
        )
        await asyncio.sleep(SOON_S)
        after = await made.topology("words")
        assert (after.target, after.generation, after.renewed, after.former) == ("words:topology", 3, 3, None)
        assert after.refused is not None
        assert (after.refused.generation, after.refused.why) == (2, "its parent does not stay alive on a: exit code 1")
        placed = await made.assignment("words")
        assert placed is not None
        assert placed.generation == 3


async def test_what_never_comes_to_run_is_taken_back() -> None:
    async with cluster() as made, made.store.client(session_s=3600) as parent:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        old = ParentRecord("a", 1)
        await parent.commit([Create(path_of(PARENTS, "words"), pack(old), ephemeral=True)])
        await asyncio.sleep(SOON_S)
        await rebalance(made.client, "words", 1)
        await asyncio.sleep(TRIAL_S * 2)
        assert (await made.topology("words")).generation == 2, "it drains, and may take its time"
        await parent.commit([Delete(path_of(PARENTS, "words"))])
        await parent.commit([Put(PARENTS, b"")])
        await asyncio.sleep(TRIAL_S - 10)
        assert (await made.topology("words")).generation == 2
        await made.end("n1")
        await made.nimbus("n2")
        await asyncio.sleep(TRIAL_S - 10)
        assert (await made.topology("words")).generation == 2, "a new leader counts anew"
        await asyncio.sleep(20)
        after = await made.topology("words")
        assert (after.generation, after.workers, after.former) == (3, 2, None)
        assert after.refused is not None
        assert after.refused.why == "it did not run within 300 s"
        await asyncio.sleep(TRIAL_S * 2)
        assert (await made.topology("words")).generation == 3


async def test_a_worker_that_stays_alive_nowhere_takes_the_rebalance_back() -> None:
    async with cluster() as made:
        await made.nimbus("n1")
        await made.supervisor("a", 2)
        await submit(made.client, "words", TWO)
        await asyncio.sleep(SOON_S)
        await rebalance(made.client, "words", 1)
        await asyncio.sleep(SOON_S)
        ended = FailedProcess("words", "worker-1", 2, (await made.topology("words")).submitted_s, "exit code 1")
        record = SupervisorRecord("host", "address", 2, failed=(ended,))
        await made.client.commit([Put(path_of(SUPERVISORS, "a"), pack(record)), Put(SUPERVISORS, b"")])
        await asyncio.sleep(SOON_S)
        after = await made.topology("words")
        assert (after.generation, after.workers) == (3, 2)
        assert after.refused is not None
        assert after.refused.why.startswith("worker-1 does not stay alive on its node, and there is no other one")
