"""What can go wrong between two processes."""

from __future__ import annotations

from ..actors import AiostormError


class NetworkError(AiostormError, ConnectionError):
    """The network cannot do it now: nobody listens at the address, it is not reached, or it is taken."""


class ConnectionLostError(NetworkError):
    """This connection is over: closed by either side, cut, or the peer is gone. A new one may be tried."""


class FrameTooLargeError(AiostormError, ValueError):
    """A frame is larger than a connection carries. Cut it up: the connection is as it was."""


class ProtocolError(NetworkError):
    """A frame came that no peer of this version sends. End the connection; what it says cannot be relied on."""


class LinkClosedError(NetworkError):
    """The link was closed, here: nothing is sent over it any more."""


class LinkSupersededError(NetworkError):
    """Another process has this one's name, and the peer has taken it for the later one. This process must end."""
