"""A running topology is asked how it is, and given other settings; whatever is asked, it runs on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm import Config, ConfigError, LocalCluster, TopologyBuilder, bolt, spout
from aiostorm.backpressure import Backpressure
from aiostorm.cluster import (
    ControlError,
    ControlSocket,
    RunningTopology,
    StatusRequest,
    StatusResponse,
    TopologySocket,
    UpdateRequest,
    UpdateResponse,
    ask,
)
from aiostorm.cluster.control.protocol import (
    ANSWER_S,
    MAX_ASKING,
    MAX_QUESTION_BYTES,
    QUESTION_S,
    Control,
    ErrorResponse,
)
from aiostorm.testing import SimClock
from aiostorm.transport import ConnectionLostError, NetworkError, pack_value, unpack_value

from ...transport.parts import MemoryNetwork

WHOM = TopologySocket("numbers", 7, "/x/7-numbers")


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(1.0)


@bolt
def ignore(n: int) -> None:
    """It goes nowhere."""


class Served:
    """A running topology, and a network on which it is asked."""

    def __init__(self, running: RunningTopology, group: asyncio.TaskGroup) -> None:
        self.running = running
        self.network = MemoryNetwork()
        control = Control(running)
        self.network.listeners[f"unix:{WHOM.path}"] = lambda connection: control.accept(connection, group)

    async def ask(self, question: Any) -> StatusResponse | UpdateResponse:
        return await ask(self.network.seen_by("client"), WHOM, question)

    async def answer(self, frame: bytes) -> Any:
        """To any bytes."""
        connection = await self.network.seen_by("client").connect(f"unix:{WHOM.path}")
        connection.send(frame)
        try:
            return unpack_value(await connection.receive())
        finally:
            connection.close()


@contextlib.asynccontextmanager
async def served(config: Config | None = None) -> AsyncIterator[Served]:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("ignore", ignore).shuffle_grouping("numbers")
    async with LocalCluster() as cluster, asyncio.TaskGroup() as group:
        running = await cluster.submit("numbers", builder.create_topology(), config)
        yield Served(running, group)
        await running.kill()


async def test_a_status_request_is_answered() -> None:
    async with served(Config(max_spout_pending=5, **{"my.key": {1: 2}})) as it:
        status = await it.ask(StatusRequest())
        assert isinstance(status, StatusResponse)
        assert (status.topology, status.state) == ("numbers", "ACTIVE")
        assert status.config == {"max_spout_pending": 5}, "what is the user's own may not be fit to travel"
        assert status.pressure == it.running.backpressure()
        assert abs(status.now_s - 1_700_000_000) < 100


async def test_an_update_changes_settings_and_reports_the_changes() -> None:
    async with served() as it:
        answer = await it.ask(UpdateRequest({"topology.backpressure.enable": False, "backpressure_sample_number": 4}))
        assert answer == UpdateResponse({"backpressure_enable": (True, False)})
        assert not it.running.config.backpressure_enable
        status = await it.ask(StatusRequest())
        assert isinstance(status, StatusResponse)
        assert not status.pressure.enabled


async def test_wrong_settings_are_reported_and_change_nothing() -> None:
    async with served() as it:
        for settings, why in (
            ({"backpressure_high_mark": 2}, "backpressure_high_mark = 2 .*: Input should be less than or equal to 1"),
            ({"topology.backpressure.enabl": 2}, "did you mean topology.backpressure.enable?"),
            ({"workers": 3, "backpressure_enable": False}, "workers cannot be changed while a topology runs"),
            ({"backpressure_low_mark": 0.9}, "must be less than 0.8"),
        ):
            with pytest.raises(ConfigError, match=why):
                await it.ask(UpdateRequest(settings))
        assert it.running.config.backpressure_enable


async def test_changes_are_made_one_after_the_other() -> None:
    async with served() as it:
        updates = (UpdateRequest({"backpressure_sample_number": number}) for number in (5, 6, 7))
        answers = await asyncio.gather(*map(it.ask, updates))
        steps = dict(
            pair for answer in answers if isinstance(answer, UpdateResponse) for pair in answer.changed.values()
        )
        path = [4]
        while path[-1] in steps:
            path.append(steps.pop(path[-1]))
        assert sorted(path) == [4, 5, 6, 7], "each began where another one ended"
        assert it.running.config.backpressure_sample_number == path[-1]


async def test_any_other_request_is_refused() -> None:
    async with served() as it:
        for frame in (
            b"",
            b"\xc1",
            pack_value("how are you?"),
            pack_value(UpdateRequest("all")),
            b"\0" * (MAX_QUESTION_BYTES + 1),
        ):  # type: ignore[arg-type]
            answer = await it.answer(frame)
            assert isinstance(answer, ErrorResponse)
            assert answer.kind == "UnreadableError"
        assert isinstance(await it.ask(StatusRequest()), StatusResponse)


async def test_an_answer_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as it:
        large = dataclasses.replace(it.running.backpressure(), state="x" * 2_000_000)
        monkeypatch.setattr(it.running, "backpressure", lambda: large)
        with pytest.raises(ControlError, match=r"numbers \(pid 7\): at .pressure.state: .* 2,000,000 bytes"):
            await it.ask(StatusRequest())


async def test_an_unexpected_exception_does_not_end_the_control_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as it:

        def broken() -> Backpressure:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patch:
            patch.setattr(it.running, "backpressure", broken)
            with pytest.raises(ControlError, match="RuntimeError: a defect; its log has more"):
                await it.ask(StatusRequest())
        assert "a request to numbers failed" in caplog.text
        assert isinstance(await it.ask(StatusRequest()), StatusResponse)


async def test_a_request_to_a_killed_topology_is_an_error() -> None:
    async with served() as it:
        await it.running.kill()
        with pytest.raises(ControlError, match="topology 'numbers' was killed"):
            await it.ask(UpdateRequest({"backpressure_enable": False}))


async def test_silent_clients_are_disconnected_and_their_number_is_bounded(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as it:
        client = it.network.seen_by("client")
        silent = [await client.connect(f"unix:{WHOM.path}") for _ in range(MAX_ASKING)]
        with pytest.raises(ControlError, match="ended before it answered"):
            await it.ask(StatusRequest())
        assert "too many requests to numbers at a time" in caplog.text
        await sim_clock.advance(QUESTION_S)
        for connection in silent:
            with pytest.raises(ConnectionLostError):
                await connection.receive()
        assert isinstance(await it.ask(StatusRequest()), StatusResponse)


# -- who asks ----------------------------------------------------------------------------------------------------------


async def test_a_missing_answer_is_an_error_after_a_timeout() -> None:
    network = MemoryNetwork()
    network.listeners[f"unix:{WHOM.path}"] = lambda connection: None
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(ControlError, match=r"numbers \(pid 7\) has not answered within 10 s: does user code block"):
        await ask(network.seen_by("client"), WHOM, StatusRequest())
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(ANSWER_S, abs=0.1)
    with pytest.raises(ControlError, match="within 10 s; whether it was done is not known"):
        await ask(network.seen_by("client"), WHOM, UpdateRequest({}))


@pytest.mark.parametrize(
    ("answer", "why"), [(b"\xc1", "Do both run the same version"), (pack_value(3), "with int: do both")]
)
async def test_an_unreadable_answer_is_an_error(answer: bytes, why: str) -> None:
    network = MemoryNetwork()
    network.listeners[f"unix:{WHOM.path}"] = lambda connection: connection.send(answer)
    with pytest.raises(ControlError, match=why):
        await ask(network.seen_by("client"), WHOM, StatusRequest())


async def test_a_request_to_a_process_that_has_ended_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"^numbers \(pid 7\) has ended$"):
        await ask(MemoryNetwork().seen_by("client"), WHOM, StatusRequest())


# -- the socket --------------------------------------------------------------------------------------------------------


async def test_a_socket_that_cannot_be_created_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (ControlError("chmod it"), NetworkError("too long"), PermissionError("not yours")):

        def refuse(name: str, error: Exception = error) -> str:
            raise error

        monkeypatch.setattr("aiostorm.cluster.control.socket.own_socket", refuse)
        async with served() as it:
            await ControlSocket(it.running).serve()
        assert f"`aiostorm update` and `aiostorm pressure` will not find this run: {error}" in caplog.text
    assert {record.levelno for record in caplog.records if record.name == "aiostorm.cluster"} == {logging.WARNING}


async def test_an_unexpected_exception_of_the_socket_does_not_end_the_topology(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(name: str) -> str:
        raise RuntimeError("a defect")

    monkeypatch.setattr("aiostorm.cluster.control.socket.own_socket", broken)
    async with served() as it:
        await ControlSocket(it.running).serve()
    assert "will not find this run" in caplog.text
    assert "RuntimeError: a defect" in caplog.text
