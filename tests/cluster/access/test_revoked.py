"""The list of revoked certificates in the store."""

from __future__ import annotations

import pytest

from aiostorm.cluster.access import RevokedCertificate, RevokedCertificates
from aiostorm.cluster.access.revoked import FOLDER, MAX_REVOKED
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


async def test_the_list_is_bounded() -> None:
    async with MemoryStore(LoopClock()).client(session_s=60) as client:
        await client.commit([Create(FOLDER)])
        for start in range(0, MAX_REVOKED, 1000):
            await client.commit([Create(f"{FOLDER}/{number:064x}") for number in range(start, start + 1000)])
        with pytest.raises(ValueError, match="10,000 certificates are revoked"):
            await RevokedCertificates(client).add("ff" * 32, 0.0, "ann")
