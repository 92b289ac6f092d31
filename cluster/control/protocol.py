"""Control protocol: another process asks a running topology for its status, or changes its settings. Both sides.

    aiostorm run     answers at its control socket (see control/socket)
    aiostorm update  ── StatusRequest, UpdateRequest, TraceRequest ──► one connection for each ──► the running topology
    aiostorm ui      ── ViewRequest (view.py), OrderRequest (orders.py) ──► the same
                     ◄── a response of each, ErrorResponse ──

1. There are only these requests. Every process that can open the socket is trusted: its folder has mode 0700.
2. A request is one frame of at most MAX_QUESTION_BYTES and must arrive at once; the response is one frame. At most
   MAX_ASKING requests are handled at a time. A connection carries one request.
3. Errors are logged here; they do not affect the topology.
4. Changes of settings are made one after the other, so that each response reports its own change.

From: Storm's `storm` client, which asks nimbus. A run in one process has no nimbus.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...backpressure import Backpressure, ComponentPressure, PressureEvent, SpoutPacing, TaskPressure
from ...metrics import Span, Step, Trace
from ...runtime import AiostormError, LoopClock, Profile
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
from ..tracing import TraceError
from . import orders, view
from .orders import OrderRequest, OrderResponse, carry_out
from .view import TracesRequest, TracesResponse, ViewRequest, ViewResponse, respond, respond_traces

if TYPE_CHECKING:
    from ..running_topology import RunningTopology
    from .folder import TopologySocket

log = logging.getLogger("aiostorm.cluster")

MAX_QUESTION_BYTES: Final = 64 * 1024

MAX_ASKING: Final = 8

QUESTION_S: Final = 2.0
"""How long to wait for the request of a connection, and for its end after the response."""

MAX_TRACE_S: Final = 300.0

MAX_PROFILE_S: Final = 60.0

MAX_PROFILES: Final = 8
MAX_PROFILE_BYTES: Final = 64 * 1024
"""Of each: the response is one frame."""

ANSWER_S: Final = 10.0
"""How long a client waits for the response."""


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Ask for the status."""


@dataclass(frozen=True, slots=True)
class StatusResponse:
    """The status. `config`: its settings, by field; `now_s`: seconds since 1970, for comparison with its times."""

    topology: str
    pid: int
    state: str
    now_s: float
    config: Mapping[str, object]
    pressure: Backpressure


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """Change these settings, by field or key."""

    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class UpdateResponse:
    """The settings are changed: field → (old value, new value)."""

    changed: Mapping[str, tuple[object, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Trace a tuple tree that passes this component (empty: any), within so many seconds; 0: the last that is known."""

    component: str
    timeout_s: float


@dataclass(frozen=True, slots=True)
class TraceResponse:
    """One tuple tree."""

    topology: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Sample all processes for so many seconds; 0: only send the profiles that are known."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProfileResponse:
    """Profiles, the last one first."""

    topology: str
    profiles: tuple[Profile, ...]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The request failed. `kind`: the name of the error's class; `problems`: its texts."""

    kind: str
    problems: tuple[str, ...]


_RECORDS: Final[tuple[type[object], ...]] = (
    StatusRequest,
    StatusResponse,
    UpdateRequest,
    UpdateResponse,
    TraceRequest,
    TraceResponse,
    ProfileRequest,
    ProfileResponse,
    ErrorResponse,
)
_SHARED: Final[tuple[type[object], ...]] = (
    Backpressure,
    ComponentPressure,
    TaskPressure,
    SpoutPacing,
    PressureEvent,
    Profile,
    Trace,
    Span,
    Step,
)

Request = StatusRequest | UpdateRequest | TraceRequest | TracesRequest | ProfileRequest | ViewRequest | OrderRequest
Response = (
    StatusResponse | UpdateResponse | TraceResponse | TracesResponse | ProfileResponse | ViewResponse | OrderResponse
)


def register() -> None:
    """Register these messages in this process, so that they can be sent."""
    for record in (*_RECORDS, *view.RECORDS, *orders.RECORDS):
        register_record(record, f"aiostorm.control.{record.__name__}")
    for record in (*_SHARED, *view.SHARED_RECORDS):
        register_record(record, f"aiostorm.{record.__name__}")


# -- server ------------------------------------------------------------------------------------------------------------


class Control:
    """Handles the requests for one running topology of this process."""

    def __init__(self, running: RunningTopology) -> None:
        register()
        self._running = running
        self._asking = 0
        self._updating = asyncio.Lock()

    def accept(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        """Take an incoming connection."""
        if self._asking >= MAX_ASKING:
            log.warning("too many requests to %s at a time: one more is refused", self._running.name)
            connection.close()
            return
        self._asking += 1
        group.create_task(self._serve(connection), name=f"request to {self._running.name}")

    async def _serve(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(QUESTION_S):
                frame = await connection.receive()
            connection.send(await self._answer(frame))
            async with asyncio.timeout(QUESTION_S):
                await connection.receive()  # the client closes: closing here could lose the response
        except (ConnectionLostError, TimeoutError) as error:
            log.debug("the client of %s has disconnected: %r", self._running.name, error)
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
            log.exception("a request to %s failed", self._running.name)
            refused = ErrorResponse(type(error).__name__, (f"{type(error).__name__}: {error}; its log has more",))
        return _packed(refused)

    async def _done(self, frame: bytes) -> Response:
        if len(frame) > MAX_QUESTION_BYTES:
            raise UnreadableError(f"a request of {len(frame):,} bytes: at most {MAX_QUESTION_BYTES:,}")
        match unpack_value(frame):
            case StatusRequest():
                return self._status()
            case UpdateRequest(settings=dict(settings)):
                return await self._update(settings)
            case TraceRequest(component=str(component), timeout_s=float(timeout_s)) if 0 <= timeout_s <= MAX_TRACE_S:
                return TraceResponse(self._running.name, await self._trace(component or None, timeout_s))
            case ViewRequest() as wanted:
                return respond(self._running, wanted)
            case TracesRequest() as traces:
                return respond_traces(self._running, traces)
            case OrderRequest() as order:
                return await carry_out(self._running, order)
            case ProfileRequest(seconds=float(seconds)) if 0 <= seconds <= MAX_PROFILE_S:
                running = self._running
                found = await running.profile(seconds) if seconds else running.profiles()
                return ProfileResponse(
                    running.name, tuple([profile.within(MAX_PROFILE_BYTES) for profile in found[:MAX_PROFILES]])
                )
        raise UnreadableError("the only requests are for the status, a view or a trace, to change settings, and orders")

    def _status(self) -> StatusResponse:
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

    async def _update(self, settings: Mapping[str, object]) -> UpdateResponse:
        async with self._updating:
            before = self._running.config
            after = await self._running.update(settings)
        pairs = {name: (getattr(before, name), getattr(after, name)) for name in Config.model_fields}
        return UpdateResponse({name: pair for name, pair in pairs.items() if pair[0] != pair[1]})

    async def _trace(self, component: str | None, timeout_s: float) -> Trace:
        if timeout_s:
            return await self._running.trace(component, timeout_s)
        traces = self._running.traces()
        found = next((trace for trace in traces if component is None or trace.passes(component)), None)
        if found is None:
            known = f"none of the {len(traces)} that are known passes {component}" if traces else "none is known"
            raise TraceError(self._running.untraced or f"{known}: ask for the next one, without --last")
        return found


def _packed(answer: Response | ErrorResponse) -> bytes:
    packed = pack_value(answer)
    if len(packed) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"the response has {len(packed):,} bytes: at most {MAX_FRAME_BYTES:,}")
    return packed


# -- client ------------------------------------------------------------------------------------------------------------


async def ask(network: Network, target: TopologySocket, question: Request, within_s: float = ANSWER_S) -> Response:
    """Send a request. ControlError if there is no response or it failed; ConfigError for settings not allowed."""
    register()
    answer_s = within_s
    if isinstance(question, TraceRequest):
        answer_s += question.timeout_s
    elif isinstance(question, ProfileRequest):
        answer_s += question.seconds
    try:
        async with asyncio.timeout(answer_s):
            connection = await network.connect(f"unix:{target.path}")
            try:
                connection.send(pack_value(question))
                answer = unpack_value(await connection.receive())
            finally:
                connection.close()
    except TimeoutError as error:
        changes = isinstance(question, UpdateRequest | OrderRequest)
        not_known = "; whether it was done is not known" if changes else ""
        raise ControlError(
            f"{target} has not answered within {answer_s:g} s{not_known}: does user code block its event loop?"
        ) from error
    except ConnectionLostError as error:
        raise ControlError(f"{target} ended before it answered") from error
    except UnreadableError as error:
        raise ControlError(f"{target}: {error}. Do both run the same version?") from error
    except NetworkError as error:
        raise ControlError(
            f"{target} cannot be asked: {error}" if target.is_there else f"{target} has ended"
        ) from error
    match answer:
        case ErrorResponse(kind=kind) if kind == UnreadableError.__name__ and isinstance(question, ViewRequest):
            raise ControlError(
                f"{target} runs another version of aiostorm, which cannot be shown from here: "
                "start it again with the version of this command"
            )
        case ErrorResponse(kind=kind, problems=problems):
            raise ConfigError(*problems) if kind == ConfigError.__name__ else ControlError(f"{target}: {problems[0]}")
        case StatusResponse() | UpdateResponse() | TraceResponse() | TracesResponse() | ProfileResponse():
            return answer
        case ViewResponse() | OrderResponse():
            return answer
    raise ControlError(f"{target} answers with {type(answer).__name__}: do both run the same version?")
