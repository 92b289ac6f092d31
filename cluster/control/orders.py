"""Orders: what another process of its user may have done to a running topology, beside changes of settings.

OrderRequest("deactivate") ─► OrderResponse(state)      "snapshots" only reads, but reads them all
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ...state import ListedSnapshot
from ..errors import ControlError

if TYPE_CHECKING:
    from ..running_topology import RunningTopology

OrderName = Literal["activate", "deactivate", "kill", "snapshot", "snapshots"]

KILL_S: Final = 5.0
"""How long the response to `kill` waits for a topology that drains; it drains on."""

SNAPSHOT_S: Final = 60.0
"""How long a savepoint may take until it is reported as late; it is still taken."""


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """Do this. `wait_s`: of `kill`, how long it may drain; None: the message timeout."""

    order: OrderName
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class OrderResponse:
    """It is done. `finished`: of `kill`, it has ended. `number`: of a savepoint."""

    state: str
    finished: bool = True
    number: int = 0
    snapshots: tuple[ListedSnapshot, ...] = ()


RECORDS: Final[tuple[type[object], ...]] = (OrderRequest, OrderResponse)


async def carry_out(running: RunningTopology, request: OrderRequest) -> OrderResponse:
    """Do what a request asks for. ControlError if it cannot be done."""
    number, finished, snapshots = 0, True, list[ListedSnapshot]()
    try:
        match request.order:
            case "activate":
                await running.activate()
            case "deactivate":
                await running.deactivate()
            case "kill":
                finished = await _killed(running, request.wait_s)
            case "snapshot":
                number = await running.snapshot(SNAPSHOT_S)
            case "snapshots":
                snapshots = await running.snapshots()
            case _:
                raise ControlError(f"{request.order!r:.100} is no order")
    except TypeError as error:  # it has no snapshots
        raise ControlError(str(error)) from error
    except TimeoutError as error:
        raise ControlError(f"no snapshot was committed within {SNAPSHOT_S:g} s; it may still be") from error
    return OrderResponse(running.state.value, finished, number, tuple(snapshots))


async def _killed(running: RunningTopology, wait_s: float | None) -> bool:
    try:
        async with asyncio.timeout(KILL_S):
            await running.kill(wait_s)
    except TimeoutError:
        return False
    return True
