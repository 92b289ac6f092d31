"""The list of revoked certificates in the store."""

from __future__ import annotations

import pytest

from aiostorm.cluster.access import RevokedCertificate, RevokedCertificates
from aiostorm.cluster.access.revoked import FOLDER, KEPT_S, MAX_REVOKED
from aiostorm.cluster.coordination import Create, MemoryStore
from aiostorm.runtime import LoopClock

ONE, TWO = "01" * 32, "02" * 32


async def test_what_is_added_is_there_for_all_clients_of_the_store() -> None:
    store = MemoryStore(LoopClock())
    async with store.client(session_s=60) as first, store.client(session_s=60) as second:
        adding, looking = RevokedCertificates(first), RevokedCertificates(second)
        assert await looking.listed() == []
        assert not await looking.has(ONE)
        await adding.add(TWO, 5.0, "ann")
        await adding.add(":".join(["01"] * 32).upper(), 7.0, "bob")  # as openssl shows it
        await adding.add(TWO, 9.0, "eve")  # it is revoked already
        assert await looking.has(ONE)
        assert await looking.listed() == [RevokedCertificate(TWO, 5.0, "ann"), RevokedCertificate(ONE, 7.0, "bob")]


async def test_what_cannot_be_read_is_revoked() -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        await client.commit([Create(FOLDER), Create(f"{FOLDER}/{ONE}", b"\xff not JSON")])
        revoked = RevokedCertificates(client)
        assert await revoked.has(ONE)
        assert [each.sha256 for each in await revoked.listed()] == [ONE]


@pytest.mark.parametrize("wrong", ["", "01", "../" + "0" * 61, ONE + "00", "g" * 64, f"{ONE}\n"])
async def test_what_is_no_fingerprint(wrong: str) -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            await RevokedCertificates(client).add(wrong, 0.0, "ann")
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            await RevokedCertificates(client).has(wrong)


async def test_those_that_have_ended_leave_the_list_with_the_next_one() -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        revoked = RevokedCertificates(client)
        await revoked.add(ONE, 1_000.0, "ann", 5_000.0)
        await revoked.add(TWO, 1_000.0, "ann")  # by its fingerprint: its end is not known
        await revoked.add("03" * 32, 5_000.0 + KEPT_S, "ann", 9e9)
        assert await revoked.has(ONE), "clocks differ"
        await revoked.add("04" * 32, 5_001.0 + KEPT_S, "ann", 9e9)
        assert [(each.sha256[:2], each.ends_s) for each in await revoked.listed()] == [
            ("02", 0.0),
            ("03", 9e9),
            ("04", 9e9),
        ]


async def test_a_full_list_takes_one_when_some_have_ended() -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        await client.commit([Create(FOLDER)])
        value = b'{"revoked_s": 1, "by": "ann", "ends_s": 2}'
        for start in range(0, MAX_REVOKED, 1000):
            await client.commit([Create(f"{FOLDER}/{number:064x}", value) for number in range(start, start + 1000)])
        await RevokedCertificates(client).add("ff" * 32, 1e6, "ann")
        assert [each.sha256 for each in await RevokedCertificates(client).listed()] == ["ff" * 32]


async def test_the_list_is_bounded() -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        await client.commit([Create(FOLDER)])
        for start in range(0, MAX_REVOKED, 1000):
            await client.commit([Create(f"{FOLDER}/{number:064x}") for number in range(start, start + 1000)])
        with pytest.raises(ValueError, match="10,000 certificates are revoked"):
            await RevokedCertificates(client).add("ff" * 32, 0.0, "ann")
