"""Errors between two processes."""

from __future__ import annotations

from ..runtime import AiostormError


class NetworkError(AiostormError, ConnectionError):
    """The network cannot do this now: there is no listener at the address, or it cannot be reached, or it is taken."""


class ConnectionLostError(NetworkError):
    """This connection is over: closed by either side, cut, or the peer has ended. A new one may be opened."""


class FrameTooLargeError(AiostormError, ValueError):
    """A frame is larger than a connection carries. Split it; the connection is not affected."""


class ProtocolError(NetworkError):
    """A frame has arrived that no peer of this version sends. The connection must be closed."""


class AuthenticationError(NetworkError):
    """The peer has not proved that it belongs to the cluster, or has refused our proof."""


class ExposedError(AiostormError):
    """Other machines can reach an address that is not protected. Nothing listens there, and nothing was sent."""


class CredentialsError(AiostormError, ValueError):
    """A token, a certificate or a key cannot be used. The text says which and why, without their content."""


class LinkClosedError(NetworkError):
    """The link was closed in this process: nothing is sent over it any more."""


class LinkSupersededError(NetworkError):
    """Another, newer process has this one's name, and the peer is linked to it. This process must end."""


class UnreadableError(ProtocolError):
    """Received bytes are not a value in this process: wrong format, beyond the limits, or an unknown record."""


class RecordError(AiostormError, TypeError):
    """A class cannot be registered as a record, or not under this name."""


class UnsendableError(AiostormError, TypeError):
    """A value that cannot be sent to another process. The message says which, where it is, and what to do.

    `path` is its place inside the sent value (`[3]['when']`); `offset` the position of the first bad row, for rows.
    """

    def __init__(self, reason: str, path: str = "", *, where: str = "", offset: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.offset = offset
        place = ", ".join(part for part in (where, f"at {path}" if path else "") if part)
        super().__init__(f"{place}: {reason}" if place else reason)

    def inside(self, step: str) -> UnsendableError:
        """The same error, with the step into the container that is one level further out."""
        return UnsendableError(self.reason, step + self.path)


class PeerLostError(NetworkError):
    """The process that a ref leads to is not linked, has ended, or was restarted.

    A question may or may not have been handled, unless the text says that it was not sent.
    """


class NotHereError(AiostormError):
    """Only the actor's own process can do this. Send the actor a message that asks for it."""


class RemoteFailureError(AiostormError):
    """The error that an actor of another process raised: its `kind` (the name of the type) and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.text = text
