"""Control socket: the socket at which a running topology answers other processes of its user (see control/protocol).

1. It costs one file. Its protocol is imported with the first connection, so a short run does not pay for it.
2. A run never fails because of it: an error is logged as a warning.
3. It is removed with the run, also if the process ends at once (`abandon`). The next process removes that of a killed
   one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...transport import AdmissionLimits, Connection, NetworkError, UnixNetwork
from ..errors import ControlError
from ..stale_files import remove
from .folder import NO_SOCKETS, own_socket

if TYPE_CHECKING:
    from ..running_topology import RunningTopology
    from .protocol import Control

log = logging.getLogger("aiostorm.cluster")

_LIMITS: Final = AdmissionLimits(max_unauthenticated=16, max_per_address=32, authenticate_within_s=2.0)

_NOT_FOUND: Final = "`aiostorm update` and `aiostorm pressure` will not find this run"


class ControlSocket:
    """The control socket of one running topology of this process."""

    def __init__(self, running: RunningTopology) -> None:
        self._running = running
        self._path = ""
        self._control: Control | None = None

    async def serve(self) -> None:
        """Answer until the call is cancelled."""
        if sys.platform == "win32":
            log.debug("no control socket: %s", NO_SOCKETS)
            return
        try:
            async with asyncio.TaskGroup() as group, UnixNetwork(limits=_LIMITS) as network:
                self._path = own_socket(self._running.name)
                await network.listen(f"unix:{self._path}", lambda connection: self._accept(connection, group))
                await asyncio.get_running_loop().create_future()
        except* (ControlError, NetworkError, OSError) as errors:
            log.warning("%s: %s", _NOT_FOUND, errors.exceptions[0])
        except* Exception:  # a defect of ours, for which no run has to fail
            log.exception(_NOT_FOUND)
        finally:
            self._path = ""

    def abandon(self) -> None:
        """The process ends now: remove the socket."""
        if self._path:
            remove(Path(self._path))

    def _accept(self, connection: Connection, group: asyncio.TaskGroup) -> None:
        if self._control is None:
            from .protocol import Control

            self._control = Control(self._running)
        self._control.accept(connection, group)
