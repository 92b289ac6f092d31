"""Exports: who finds which actor, by name and by number, until its end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm.actors import Actor, ActorSystem, Ref
from aiostorm.transport.errors import NotHereError
from aiostorm.transport.remote.exports import Exports
from aiostorm.transport.remote.notes import MAX_NAME_BYTES


class Silent(Actor):
    async def receive(self, message: Any) -> None: ...


class Numbers:
    """Random bytes that are 1, 2, 3, …; `sizes`: how many were asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def token_bytes(self, size_bytes: int) -> bytes:
        self.sizes.append(size_bytes)
        return len(self.sizes).to_bytes(size_bytes, "big")

    def generator(self) -> Any:
        raise AssertionError("never for a number")


@contextlib.asynccontextmanager
async def actors(count: int) -> AsyncIterator[list[Ref]]:
    async with ActorSystem() as system:
        yield [system.spawn(Silent) for _ in range(count)]


async def ended(ref: Ref) -> None:
    ref.stop()
    await ref.wait_terminated()


async def test_a_name_is_of_one_living_actor() -> None:
    exports = Exports(Numbers())
    async with actors(2) as (one, two):
        exports.offer("a", one)
        exports.offer("a", one)
        assert exports.find("a") is one
        with pytest.raises(ValueError, match="is offered as 'a' already: withdraw that first"):
            exports.offer("a", two)
        await ended(one)
        assert exports.find("a") is None
        exports.offer("a", two)
        assert exports.find("a") is two
        exports.withdraw("a")
        exports.withdraw("a")
        assert exports.find("a") is None


async def test_a_name_may_be_for_some_peers_only() -> None:
    exports = Exports(Numbers())
    async with actors(1) as [ref]:
        exports.offer("a", ref, to=["x", "y"])
        assert [exports.find_for("a", peer) for peer in ("x", "y", "z", "")] == [ref, ref, None, None]
        assert exports.find("a") is ref
        exports.offer("a", ref)
        assert exports.find_for("a", "z") is ref
        exports.offer("a", ref, to=())
        assert exports.find_for("a", "x") is None
        exports.withdraw("a")
        exports.offer("a", ref)
        assert exports.find_for("a", "z") is ref


async def test_a_name_has_a_length_in_bytes() -> None:
    exports = Exports(Numbers())
    async with actors(1) as [ref]:
        longest = "ü" * (MAX_NAME_BYTES // 2) + "a" * (MAX_NAME_BYTES % 2)
        exports.offer(longest, ref)
        exports.offer("a", ref)
        assert exports.find(longest) is ref
        for name, size in (("", 0), (f"{longest}a", MAX_NAME_BYTES + 1)):
            with pytest.raises(ValueError, match=f"has 1 to {MAX_NAME_BYTES} bytes, not {size}$"):
                exports.offer(name, ref)
            assert exports.find(name) is None


async def test_only_actors_of_this_process_are_offered() -> None:
    with pytest.raises(NotHereError, match="is an actor of another process: offer it there"):
        Exports(Numbers()).offer("a", object())  # type: ignore[arg-type]


async def test_an_actor_has_one_number_until_its_end() -> None:
    chance = Numbers()
    exports = Exports(chance)
    async with actors(2) as (one, two):
        assert [exports.number_of(ref) for ref in (one, two, one)] == [1, 2, 1]
        assert chance.sizes == [8, 8]
        assert [exports.find(number) for number in (1, 2, 3)] == [one, two, None]
        assert exports.find_for(1, "any peer") is one
        assert exports.find("1") is None
        await ended(one)
        assert exports.find(1) is None
        assert exports.find(2) is two
        assert exports.number_of(one) == 3, "one that leads nowhere"
        assert exports.number_of(one) == 4
        assert exports.find(3) is None
        assert (exports._numbers, exports._numbered) == ({two: 2}, {2: two})


async def test_the_number_is_read_in_network_order() -> None:
    class Bytes(Numbers):
        def token_bytes(self, size_bytes: int) -> bytes:
            return bytes(range(1, size_bytes + 1))

    async with actors(1) as [ref]:
        assert Exports(Bytes()).number_of(ref) == 0x0102030405060708
