"""Spark Connect: sessions without a JVM in this process. The differences to a classic session are in this module.

    spark.remote=sc://HOST:PORT, or SPARK_REMOTE ─► connected ─► a session of the server's, by gRPC

1. A Connect session has no SparkContext, no RDDs and no readable plan: features that need them are refused by name.
2. The server is not asked whether a session is alive: PySpark retries a call to an unreachable server for ten minutes.
   A session is lost when a call has failed with such an error.
3. Everything here blocks, except `is_connect` and `is_closed`.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from .errors import SparkSourceError, SparkUnavailableError
from .needs import require

log = logging.getLogger("aiostorm.spark")

REMOTE: Final = "spark.remote"
INSTALL_CONNECT: Final = (
    'pip install "aiostorm[spark-connect]", or, beside the whole of PySpark, pip install "pyspark[connect]"'
)

_MODULE: Final = "pyspark.sql.connect."
_LOST: Final = re.compile(
    r"INVALID_HANDLE\.(?:SESSION|OPERATION)_\w+|NO_ACTIVE_SESSION|SESSION_(?:CLOSED|CHANGED|NOT_SAME)|UNAVAILABLE"
    r"|failed to connect to all addresses|Cannot invoke RPC on closed channel"
)


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
    builder = sessions.SparkSession.builder.remote(remote)
    for key, value in settings.items():
        if key not in (REMOTE, "spark.app.name"):
            builder = builder.config(key, value)
    try:
        session = builder.create()
        log.info("Spark Connect: Spark %s at %s", session.version, remote)
    except Exception as error:
        raise SparkUnavailableError(f"no session of {remote}: {str(error)[:600]}") from error
    return session


def forget(session: Any) -> None:
    """Close the client of a session that was lost: its waiting calls fail, and are not retried."""
    try:
        session.client.close()
    except Exception:
        log.debug("while a lost session was closed", exc_info=True)


def end(session: Any) -> None:
    """Release a session that this process owns, and close its client. Does nothing if it is closed.

    Not by `session.stop()`: that would also end a server that PySpark has started for this process.
    """
    if is_closed(session):
        return
    try:
        session.client.release_session()
    except Exception as error:
        log.debug("a session was not released", exc_info=error)
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


def refuse(session: Any, what: str, instead: str) -> None:
    """Raise SparkSourceError if this is a Connect session, which does not support `what`."""
    if is_connect(session):
        raise SparkSourceError(
            f"{what} needs a Spark session with its JVM in this process, and this is one of Spark Connect: {instead}"
        )
