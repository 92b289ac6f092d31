"""Places: a coordination store by its URL.

sqlite:/var/lib/aiostorm/cluster.db     the processes of one machine
zk://host1:2181,host2/aiostorm          several machines (aiostorm[zookeeper])
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from .operations import checked_path
from .polled import SESSION_S, open_polled
from .sqlite import SqliteBackend

if TYPE_CHECKING:
    from ...runtime import Clock
    from .coordination import Coordination

_FORMS: Final = "sqlite:PATH for the processes of one machine, or zk://HOST[:PORT],…/PATH for several"


def open_coordination(
    url: str, clock: Clock, *, session_s: float = SESSION_S
) -> AbstractAsyncContextManager[Coordination]:
    """A client of the store at this URL, with a session of its own. ValueError for a URL of another form.

    Entering raises UnavailableError if the store cannot be reached, and CoordinationError if it cannot be used.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        return open_polled(SqliteBackend(_file(url)), clock, url, session_s=session_s)
    if scheme == "zk" and rest.startswith("//"):
        from .zookeeper import open_zookeeper  # kazoo is an extra

        hosts, _, root = rest.removeprefix("//").partition("/")
        if not hosts or "@" in hosts:  # a URL with a password is not repeated
            raise ValueError("the URL names no host, or has a user: zk://host1:2181,host2:2181/aiostorm")
        return open_zookeeper(hosts, checked_path(f"/{root.rstrip('/')}") if root else "", session_s=session_s)
    raise ValueError(f"a coordination store is {_FORMS}: not {url!r:.300}")


def is_there(url: str) -> bool:
    """Whether there may be a store at this URL, so that a client does not make an empty one. ValueError."""
    return not url.startswith("sqlite:") or _file(url).exists()


def _file(url: str) -> Path:
    path = unquote(url.partition(":")[2].removeprefix("//"))
    if not path or path.endswith("/") or "\0" in path:
        raise ValueError(f"{url!r:.300} names no file: sqlite:/var/lib/aiostorm/cluster.db")
    return Path(path)
