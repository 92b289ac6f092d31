"""Control: another process asks a running topology how it is, and gives it other settings. Both sides of it.

    aiostorm run     answers at its control socket (see control_socket)
    aiostorm update  ── StatusRequest, UpdateRequest ──► a connection for each question ──► the running topology
                     ◄── StatusResponse, UpdateResponse, ErrorResponse ──

1. These two questions are all that is answered. Whoever can open the socket's file is believed: the folder is 0700.
2. A question is one frame of at most MAX_QUESTION_BYTES and comes at once; the answer is one frame. No more than
   MAX_ASKING are answered at a time. A connection lives for its question.
3. What goes wrong here is logged: the topology runs on as if nobody had asked.
4. One change of settings after the other: what has changed is told as it was.

From: Storm's `storm` client, which asks nimbus. A run in one process has none.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...backpressure import Backpressure, ComponentPressure, PressureEvent, SpoutPacing, TaskPressure
from ...runtime import AiostormError, LoopClock
from ...topology import Config, ConfigError
from ...transport import (
    MAX_FRAME_BYTES,
    Connection,
    ConnectionLostError,
    FrameTooLargeError,
    Network,
    NetworkError,
    UnreadableError,
    pack_value,
    register_record,
    unpack_value,
)
from ..errors import ControlError
from ..running_topology import RunningTopology
from .folder import TopologySocket

log = logging.getLogger("aiostorm.cluster")

MAX_QUESTION_BYTES: Final = 64 * 1024

MAX_ASKING: Final = 8

QUESTION_S: Final = 2.0
"""So long one waits for the question of a connection, and for its end after the answer."""

ANSWER_S: Final = 10.0
"""So long whoever asks waits for the answer."""


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """How are you?"""


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """The answer. `config`: what is set in it, by field; `now_s`: seconds since 1970, as its times are."""

    topology: str
    pid: int
    state: str
    now_s: float
    config: Mapping[str, Any]
    pressure: Backpressure


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """Take these settings, by field or key."""

    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateResponse:
    """Done. Field → the value before, the value now, of those that have changed."""

    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Not done. `kind`: the name of the error's class; `problems`: its texts."""

    kind: str
    problems: tuple[str, ...]


_RECORDS: Final[tuple[type[Any], ...]] = (StatusRequest, StatusResponse, UpdateRequest, UpdateResponse, ErrorResponse)
_VIEW: Final[tuple[type[Any], ...]] = (Backpressure, ComponentPressure, TaskPressure, SpoutPacing, PressureEvent)


def register() -> None:
    """Let these messages travel, in this process."""
    for record in _RECORDS:
        register_record(record, f"aiostorm.control.{record.__name__}")
    for record in _VIEW:
        register_record(record, f"aiostorm.{record.__name__}")


# -- who is asked ------------------------------------------------------------------------------------------------------


class Control:
    """Answers for one running topology of this process."""

    def __init__(self, running: RunningTopology) -> None:
        register()
        self._running = running
        self._asking = 0
        self._updating = asyncio.Lock()

    def accept(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        """Somebody has come."""
        if self._asking >= MAX_ASKING:
            log.warning("too many ask %s at a time: one more is turned away", self._running.name)
            connection.close()
            return
        self._asking += 1
        group.create_task(self._serve(connection), name=f"{self._running.name} is asked")

    async def _serve(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(QUESTION_S):
                frame = await connection.receive()
            connection.send(await self._answer(frame))
            async with asyncio.timeout(QUESTION_S):
                await connection.receive()  # they close when they have it: what is in a buffer could be lost
        except (ConnectionLostError, TimeoutError) as error:
            log.debug("whoever asked %s has gone: %r", self._running.name, error)
        finally:
            self._asking -= 1
            connection.close()

    async def _answer(self, frame: bytes) -> bytes:
        try:
            return _packed(await self._done(frame))
        except ConfigError as error:
            refused = ErrorResponse(ConfigError.__name__, tuple(error.problems))
        except AiostormError as error:
            refused = ErrorResponse(type(error).__name__, (str(error),))
        except Exception as error:
            log.exception("what %s was asked could not be answered", self._running.name)
            refused = ErrorResponse(type(error).__name__, (f"{type(error).__name__}: {error}; its log has more",))
        return _packed(refused)

    async def _done(self, frame: bytes) -> StatusResponse | UpdateResponse:
        if len(frame) > MAX_QUESTION_BYTES:
            raise UnreadableError(f"a question of {len(frame):,} bytes: at most {MAX_QUESTION_BYTES:,}")
        match unpack_value(frame):
            case StatusRequest():
                return self._told()
            case UpdateRequest(settings=dict(settings)):
                return await self._update(settings)
        raise UnreadableError("it is asked how it is, or given settings, and nothing else")

    def _told(self) -> StatusResponse:
        running = self._running
        pressure = running.backpressure()
        return StatusResponse(
            running.name,
            os.getpid(),
            running.state.value,
            LoopClock().now(),
            {key: getattr(running.config, key) for key in running.config.model_fields_set},
            dataclasses.replace(pressure, components=dict(pressure.components)),
        )

    async def _update(self, settings: Mapping[str, Any]) -> UpdateResponse:
        async with self._updating:
            before = self._running.config
            after = await self._running.update(settings)
        pairs = {name: (getattr(before, name), getattr(after, name)) for name in Config.model_fields}
        return UpdateResponse({name: pair for name, pair in pairs.items() if pair[0] != pair[1]})


def _packed(answer: StatusResponse | UpdateResponse | ErrorResponse) -> bytes:
    packed = pack_value(answer)
    if len(packed) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"the answer has {len(packed):,} bytes: at most {MAX_FRAME_BYTES:,}")
    return packed


# -- who asks ----------------------------------------------------------------------------------------------------------


async def ask(
    network: Network, whom: TopologySocket, question: StatusRequest | UpdateRequest
) -> StatusResponse | UpdateResponse:
    """The answer. ControlError if there is none, or it was refused; ConfigError for settings that are not allowed."""
    register()
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await network.connect(f"unix:{whom.path}")
            try:
                connection.send(pack_value(question))
                answer = unpack_value(await connection.receive())
            finally:
                connection.close()
    except TimeoutError as error:
        not_known = "; whether it was done is not known" if isinstance(question, UpdateRequest) else ""
        raise ControlError(
            f"{whom} has not answered within {ANSWER_S:g} s{not_known}: does user code block its event loop?"
        ) from error
    except ConnectionLostError as error:
        raise ControlError(f"{whom} ended before it answered") from error
    except UnreadableError as error:
        raise ControlError(f"{whom}: {error}. Do both run the same version?") from error
    except NetworkError as error:
        raise ControlError(f"{whom} cannot be asked: {error}" if whom.is_there else f"{whom} has ended") from error
    match answer:
        case ErrorResponse(kind=kind, problems=problems):
            raise ConfigError(*problems) if kind == ConfigError.__name__ else ControlError(f"{whom}: {problems[0]}")
        case StatusResponse() | UpdateResponse():
            return answer
    raise ControlError(f"{whom} answers with {type(answer).__name__}: do both run the same version?")
