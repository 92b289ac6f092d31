"""Nimbus asks supervisors for logs over connections: bounded, kept, and with credentials of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from aiostorm.cli.answering import ask_node
from aiostorm.cli.cluster_logs import show_logs
from aiostorm.cli.errors import CommandError
from aiostorm.cluster import PARENT, WORKER, Home
from aiostorm.cluster.access import Role
from aiostorm.cluster.coordination import Create
from aiostorm.cluster.logs import LOGS, LogsAsked, LogServer, NodeAwayError, NodeLogs
from aiostorm.cluster.logs.server import MAX_CLIENTS
from aiostorm.cluster.nimbus import SUPERVISORS, OrderError, SupervisorRecord, pack, path_of
from aiostorm.runtime import LoopClock
from aiostorm.transport import AuthenticationError, ConnectionLostError, Credentials, Network, Security, open_network

from ..serving.served import Place, place

pytestmark = pytest.mark.sockets

TOKEN = Security(Credentials.new("cluster"))


@asynccontextmanager
async def network(security: Security = TOKEN, role: str = PARENT, of: str = WORKER) -> AsyncIterator[Network]:
    async with open_network(f"of-{role}", security.derived(LOGS), role=role, roles=(of,)) as made:
        yield made


@asynccontextmanager
async def supervisor(home: Home, address: str) -> AsyncIterator[str]:
    """What a supervisor serves. The address."""
    async with asyncio.TaskGroup() as group, network(role=WORKER, of=PARENT) as made:
        at: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = group.create_task(LogServer(home, made, LoopClock()).serve(address, at.set_result))
        try:
            yield await at
        finally:
            serving.cancel()


@pytest.fixture
def home(short_path: str) -> Home:
    made = Home(Path(short_path) / "h")
    made.make()
    made.logs("words").mkdir()
    made.log("words", "parent").write_text("runs\n")
    return made


async def test_lines_of_another_node(home: Home) -> None:
    address = f"unix:{home.path}/logs.socket"
    async with network() as ours:
        asking = NodeLogs(ours)
        with pytest.raises(NodeAwayError, match="its supervisor cannot be reached"):
            await asking.ask(address, LogsAsked("words"))
        async with supervisor(home, address):
            [piece] = await asking.ask(address, LogsAsked("words"))
            assert (piece.process, piece.lines) == ("parent", ("runs",))
            assert await asking.ask(address, LogsAsked("nothing")) == []
            for asked, why in (LogsAsked(".."), "a topology's name is"), (LogsAsked("words", lines=-1), "0 or more"):
                with pytest.raises(ValueError, match=why):
                    await asking.ask(address, asked)
            with pytest.raises(ValueError, match="the request has"):
                await asking.ask(address, LogsAsked("words", "x" * 300_000))
        async with supervisor(home, address):  # another process: the kept connection has ended
            [again] = await asking.ask(address, LogsAsked("words", cursors={"parent": piece.cursor}))
            assert again.lines == ()
        asking.close()


async def test_connections_are_bounded_and_the_first_ones_go_on(home: Home) -> None:
    async with supervisor(home, f"unix:{home.path}/logs.socket") as address, network() as ours:
        held = [await ours.connect(address) for _ in range(MAX_CLIENTS)]
        refused = await ours.connect(address)
        with pytest.raises(ConnectionLostError):
            await refused.receive()
        held[0].send(b"no request")
        assert b"do nimbus and this supervisor run the same version" in await held[0].receive()
        held[0].send(b"x" * 300_000)
        assert b"at most 262,144" in await held[0].receive()
        for connection in held:
            connection.close()


@pytest.mark.parametrize("security", [Security(Credentials.new("another")), TOKEN.derived("something else")])
async def test_who_has_no_credentials_for_it_is_refused(home: Home, security: Security) -> None:
    async with supervisor(home, f"unix:{home.path}/logs.socket") as address, network(security) as theirs:
        with pytest.raises((AuthenticationError, ConnectionLostError)):
            await (await theirs.connect(address)).receive()


async def test_requests_at_once_are_answered_each_with_its_own(home: Home) -> None:
    for number in range(30):
        home.logs(f"t{number}").mkdir()
        home.log(f"t{number}", "parent").write_text(f"{number}\n")
    async with supervisor(home, f"unix:{home.path}/logs.socket") as address, network() as ours:
        asking = NodeLogs(ours)
        found = await asyncio.gather(*(asking.ask(address, LogsAsked(f"t{number}")) for number in range(30)))
        assert [piece.lines for [piece] in found] == [(str(number),) for number in range(30)]
        asking.close()


async def node(made: Place, name: str, **record: str) -> None:
    """Say what a node is, as its supervisor does."""
    cluster = made.served.cluster
    assert cluster is not None
    known = {"host": "machine", "address": "", **record}
    created = Create(path_of(SUPERVISORS, name), pack(SupervisorRecord(slots=4, **known)))  # type: ignore[arg-type]
    await cluster._client.commit([created])


async def test_nimbus_asks_a_node_for_who_may_read(
    home: Home, short_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = f"unix:{home.path}/logs.socket"
    async with place(Path(short_path)) as made, supervisor(home, socket), network() as ours, NodeLogs(ours) as asking:
        made.served.node_logs = partial(ask_node, home, made.served, asking)
        await node(made, "b", address="10.0.0.2", logs=socket)
        await node(made, "c", home=str(home.path))  # on this machine
        await node(made, "d", address="10.0.0.4", logs=f"unix:{home.path}/none")
        await node(made, "e", address="10.0.0.5")  # of an earlier version
        async with made.cluster(Role.VIEWER) as cluster:
            for name in ("b", "c"):
                [piece] = await cluster.node_logs(name, LogsAsked("words"))
                assert piece.lines == ("runs",)
                [again] = await cluster.node_logs(name, LogsAsked("words", cursors={"parent": piece.cursor}))
                assert (again.lines, again.missed) == ((), False)
            for name, why in {"d": "cannot be reached", "e": "start it with --host", "x": "no supervisor"}.items():
                with pytest.raises(NodeAwayError, match=why):
                    await cluster.node_logs(name, LogsAsked("words"))
            for asked in (LogsAsked("../words"), LogsAsked("words", cursors={"parent": "/etc/passwd"})):
                with pytest.raises(ValueError, match=r"a topology's name is|is no cursor"):
                    await cluster.node_logs("b", asked)
            with pytest.raises(ValueError, match="0 to 10,000 lines"):
                await cluster.node_logs("b", LogsAsked("words", lines=10_001))
            # It has ended: its logs are still on nodes.
            assert await show_logs(cluster, "words", "", 100, follow=True) == 0
            out, err = capsys.readouterr()
            assert out.splitlines() == ["parent@b | runs", "parent@c | runs"]
            assert "d: its supervisor cannot be reached" in err
            with pytest.raises(CommandError, match="words has no logs of 'worker-1'"):
                await show_logs(cluster, "words", "worker-1", 100, follow=False)
            with pytest.raises(OrderError, match="nothing"):
                await show_logs(cluster, "nothing", "", 100, follow=False)
