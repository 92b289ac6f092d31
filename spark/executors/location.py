"""Location: where the tasks of a spout or bolt are, as the options of `format("aiostorm")` say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import SparkLostError
from .endpoints import Endpoint, client_security, find

if TYPE_CHECKING:
    from ...transport import Security

PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """The topology's side in Spark's options. Plain values, since executors get it."""

    role: str
    endpoints: str | None = None
    addresses: tuple[str, ...] = ()
    credentials: str | None = None
    component: str | None = None
    patience_s: float = PATIENCE_S

    def tasks(self) -> list[Endpoint]:
        """The endpoints of all tasks, in order. SparkLostError if some are missing (now)."""
        if self.addresses:
            count = len(self.addresses)
            return [Endpoint(self.component or "", at, count, address) for at, address in enumerate(self.addresses)]
        assert self.endpoints is not None  # noqa: S101 - the options were checked
        found = find(self.endpoints, self.component)
        wanted = found[0].tasks if found else 0
        if [one.task for one in found] != list(range(wanted)) or not found:
            there = f"{len(found)} of {wanted} tasks are" if found else "no task is"
            raise SparkLostError(f"{there} available: is a topology that serves endpoints={self.endpoints} running?")
        return found

    def security(self) -> Security:
        """The client's security. CredentialsError if there is no token."""
        return client_security(self.endpoints, self.credentials)
