"""Spark Connect: sessions without a JVM in this process. The differences to a classic session are in this module.

    spark.remote=sc://HOST:PORT, or SPARK_REMOTE ─► connected ─► a session of the server's, by gRPC

1. A Connect session has no SparkContext, no RDDs and no readable plan: features that need them are refused by name.
2. A session is lost when a call has failed with such an error, or when its client was closed because the server did not
   answer (JvmWatch). PySpark retries a call to an unreachable server for ten minutes: sessions made here retry it for
   less than a minute, because their users connect again in any case.
3. Everything here blocks, except `is_connect` and `is_closed`.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from .errors import SparkSourceError, SparkUnavailableError
from .needs import require, version

log = logging.getLogger("aiostorm.spark")

REMOTE: Final = "spark.remote"
INSTALL_CONNECT: Final = (
    'pip install "aiostorm[spark-connect]", or, beside the whole of PySpark, pip install "pyspark[connect]"'
)

FIRST_VERSION: Final = (4, 2)
"""The first PySpark whose Connect client has what is used here."""

CONNECT_S: Final = 60.0
"""How long the first calls of a new session may take: a server that hangs accepts connections, and does not answer."""

_MODULE: Final = "pyspark.sql.connect."
_LOST: Final = re.compile(
    r"INVALID_HANDLE\.(?:SESSION|OPERATION)_\w+|NO_ACTIVE_SESSION|SESSION_(?:CLOSED|CHANGED|NOT_SAME)|UNAVAILABLE"
    r"|failed to connect to all addresses|Cannot invoke RPC on closed channel"
)

_RETRIES: Final = {
    "max_retries": 12,
    "initial_backoff": 50,
    "backoff_multiplier": 4.0,
    "max_backoff": 4_000,
    "jitter": 500,
    "min_jitter_threshold": 2_000,
}
"""Milliseconds. 36 to 41 s in all; a server that was started again is found within 4.5 s."""


def is_connect(thing: Any) -> bool:
    """Whether it is a session or a DataFrame of Spark Connect."""
    return type(thing).__module__.startswith(_MODULE)


def is_closed(session: Any) -> bool:
    """Whether this client was closed, by its user or by `forget`."""
    return bool(session.client.is_closed)


def is_ended(error: BaseException, session: Any) -> bool:
    """Whether this error of a call means that the server, or its part of the session, has ended."""
    return is_closed(session) or _LOST.search(str(error)) is not None


def active() -> Any:
    """The default Connect session of this process, if there is one."""
    module = sys.modules.get("pyspark.sql.connect.session")
    session = None if module is None else module.SparkSession._get_default_session()
    return None if session is None or is_closed(session) else session


def connected(settings: Mapping[str, str]) -> Any:
    """Make a session of the server named by `spark.remote`. SparkUnavailableError if that is not possible."""
    remote = settings[REMOTE]
    if not remote.startswith("sc://"):
        raise SparkUnavailableError(
            f"{REMOTE}={remote}: the address of a Spark Connect server is sc://HOST:PORT. For a Spark of this process "
            "give spark.master"
        )
    try:
        sessions = require("pyspark.sql.connect.session")
    except ImportError as error:  # PySpark's message names the missing package
        raise SparkUnavailableError(f"Spark Connect cannot be used: {error}; {INSTALL_CONNECT}") from error
    if version() < FIRST_VERSION:
        raise SparkUnavailableError(
            f"Spark Connect needs PySpark {'.'.join(map(str, FIRST_VERSION))} or newer here, and "
            f"{require('pyspark').__version__} is installed; without Connect, give spark.master instead of {REMOTE}"
        )
    session = timer = None
    try:
        session = sessions.SparkSession.builder.remote(remote).create()
        limit_retries(session)
        timer = threading.Timer(CONNECT_S, forget, (session,))
        timer.start()
        differing(session, {key: value for key, value in settings.items() if key != "spark.app.name"})
        log.info("Spark Connect: Spark %s at %s", session.version, remote)
    except Exception as error:
        if session is not None:
            forget(session)
        raise SparkUnavailableError(f"no session of {remote}: {str(error)[:600]}") from error
    finally:
        if timer is not None:
            timer.cancel()
    return session


def limit_retries(session: Any) -> None:
    """Retry calls of this session for less than a minute while its server cannot be reached."""
    try:
        policy = require("pyspark.sql.connect.client.retries").DefaultPolicy
    except SparkUnavailableError:  # PySpark 3.5 has no policies
        return
    session.client.set_retry_policies([policy(**_RETRIES)])


def ping(session: Any) -> None:
    """Call the server. Any answer will do, also an error."""
    session.conf.get(REMOTE, None)


def forget(session: Any) -> None:
    """Close the client of a session that was lost: its waiting calls fail, and are not retried, not even at exit."""
    channel = getattr(session.client, "_channel", None)
    try:
        if channel is not None:
            channel.close()  # else `close` waits up to 10 s for calls that are retried
        session.client.close()
    except Exception as error:
        _log_unexpected("a lost session was not closed", error, session)
    # PySpark would keep the closed session as the default, and the next one would never be.
    found = sys.modules.get("pyspark.sql.connect.session")
    if found is not None and found.SparkSession._default_session is session:
        found.SparkSession._default_session = None


def end(session: Any) -> None:
    """Release a session that this process owns, and close its client. Does nothing if it is closed.

    Not by `session.stop()`: that would also end a server that PySpark has started for this process.
    """
    if is_closed(session):
        return
    try:
        session.client.release_session()
    except Exception as error:
        _log_unexpected("a session was not released, and its server keeps it for some time", error, session)
    forget(session)


def differing(session: Any, settings: Mapping[str, str]) -> dict[str, str | None]:
    """Set these settings in the session. Returns those that cannot be set, with the session's values."""
    found = {}
    for key, value in settings.items():
        if key == REMOTE or session.conf.get(key, None) == value:
            continue
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        else:
            found[key] = session.conf.get(key, None)
    return found


def _log_unexpected(what: str, error: Exception, session: Any) -> None:
    """Log an error of cleaning up, quietly if the server or the session has ended: that is expected then."""
    level = logging.DEBUG if is_ended(error, session) else logging.WARNING
    log.log(level, "Spark Connect: %s", what, exc_info=error)


def refuse(session: Any, what: str, instead: str) -> None:
    """Raise SparkSourceError if this is a Connect session, which does not support `what`."""
    if is_connect(session):
        raise SparkSourceError(
            f"{what} needs a Spark session with its JVM in this process, and this is one of Spark Connect: {instead}"
        )
