"""What every coordination store does, as stories of its clients. `Open` makes a client with a session of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aiostorm.cluster.coordination import (
    BadVersionError,
    Check,
    Coordination,
    Create,
    Delete,
    DeposedError,
    EphemeralParentError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Put,
    RefusedError,
    SessionLostError,
    Watch,
    campaign,
    leader,
)

Open = Callable[[], AbstractAsyncContextManager[Coordination]]
WITHIN_S = 10.0


async def nodes_have_values_versions_and_children(open_client: Open) -> None:
    async with open_client() as client:
        assert client.status == "connected"
        assert await client.get("/a") is None
        assert await client.commit([Create("/a", b"one")]) == (0,)
        assert await client.commit([Create("/a/x"), Create("/a/b", b"\0\xff"), Put("/a", b"two")]) == (0, 0, 1)
        found = await client.get("/a")
        assert found is not None
        assert (found.value, found.version, found.session) == (b"two", 1, None)
        assert await client.children("/a") == ["b", "x"]
        assert "a" in await client.children("/")
        assert (await client.get("/a/b")).value == b"\0\xff"  # type: ignore[union-attr]
        assert await client.commit([Check("/a", 1), Delete("/a/x"), Put("/a", b"", version=1)]) == (1, -1, 2)
        assert await client.children("/a") == ["b"]
        with pytest.raises(NoNodeError):
            await client.children("/none")
        with pytest.raises(ValueError, match="a path has"):
            await client.get("a")


async def a_commit_happens_whole_or_not_at_all(open_client: Open) -> None:
    async with open_client() as client:
        await client.commit([Create("/a", b"one"), Create("/a/x"), Create("/e", ephemeral=True)])
        refused: list[tuple[type[RefusedError], str, Any]] = [
            (BadVersionError, "/a", Check("/a", 7)),
            (BadVersionError, "/a", Put("/a", b"", version=3)),
            (BadVersionError, "/a/x", Delete("/a/x", version=3)),
            (NodeExistsError, "/a", Create("/a")),
            (NoNodeError, "/none", Put("/none", b"")),
            (NoNodeError, "/none", Delete("/none")),
            (NoNodeError, "/none", Check("/none", 0)),
            (NoNodeError, "/none", Create("/none/x")),
            (NotEmptyError, "/a", Delete("/a")),
            (EphemeralParentError, "/e", Create("/e/x")),
        ]
        for error, path, operation in refused:
            with pytest.raises(error) as raised:
                await client.commit([Put("/a", b"other"), operation, Create("/new")])
            assert raised.value.path == path
            assert (await client.get("/a")).version == 0  # type: ignore[union-attr]
            assert await client.get("/new") is None


async def ephemeral_nodes_end_with_their_session(open_client: Open) -> None:
    async with open_client() as client:
        watch = await client.watch("/")
        async with open_client() as other:
            await other.commit([Create("/stays"), Create("/goes", b"x", ephemeral=True)])
            await seen(watch, client, lambda: client.get("/goes"), True)
            node = await client.get("/goes")
            assert node is not None
            assert node.session == other.session != client.session
        await seen(watch, client, lambda: client.get("/goes"), False)
        assert await client.get("/stays") is not None
        with pytest.raises(SessionLostError):
            await other.get("/stays")
        with pytest.raises(SessionLostError):
            await other.commit([Create("/late")])
        assert other.status == "lost"


async def a_watch_misses_no_change(open_client: Open) -> None:
    async with open_client() as client, open_client() as other:
        watch = await client.watch("/a")
        for operation, there in ((Create("/a"), True), (Delete("/a"), False), (Create("/a"), True)):
            await other.commit([operation])
            await seen(watch, client, lambda: client.get("/a"), there)
        await other.commit([Create("/a/x")])
        await seen(watch, client, lambda: client.get("/a/x"), True)
        for number in range(5):
            await other.commit([Put("/a", b"%d" % number)])
        async with asyncio.timeout(WITHIN_S):
            while (await client.get("/a")).value != b"4":  # type: ignore[union-attr]
                await watch.changed()
        watch.close()


async def one_of_several_leads_and_the_next_term_is_greater(open_client: Open) -> None:
    async with open_client() as watching, open_client() as second:
        async with open_client() as first:
            term = await campaign(first, b"one")
            assert await leader(watching) == b"one"
            waiting = asyncio.create_task(campaign(second, b"two"))
            await term.commit([Create("/plan", b"of one")])
            assert not waiting.done()
        async with asyncio.timeout(WITHIN_S):
            later = await waiting
        assert later.number > term.number
        assert await leader(watching) == b"two"
        assert await later.commit([Put("/plan", b"of two")]) == (1,)
        async with open_client() as third:
            over = asyncio.create_task(later.over())
            await asyncio.sleep(0)
            await later.resign()
            assert await leader(watching) is None
            last = await campaign(third, b"three")
            async with asyncio.timeout(WITHIN_S):
                await over
            with pytest.raises(DeposedError, match=f"term {later.number} is over: another one leads"):
                await later.commit([Put("/plan", b"of none")])
            await later.resign()  # has no effect on the new one
            assert await leader(watching) == b"three"
            with pytest.raises(BadVersionError):
                await last.commit([Put("/plan", b"", version=9)])
            assert (await watching.get("/plan")).value == b"of two"  # type: ignore[union-attr]


STORIES: list[Callable[[Open], Awaitable[None]]] = [
    nodes_have_values_versions_and_children,
    a_commit_happens_whole_or_not_at_all,
    ephemeral_nodes_end_with_their_session,
    a_watch_misses_no_change,
    one_of_several_leads_and_the_next_term_is_greater,
]


async def seen(watch: Watch, client: Coordination, read: Callable[[], Awaitable[Any]], there: bool) -> None:
    """Wait until what is read is there, or not, looking again only when the watch says so."""
    async with asyncio.timeout(WITHIN_S):
        while (await read() is not None) is not there:
            await watch.changed()
