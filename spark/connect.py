"""Spark Connect: sessions without a JVM in this process. What differs from a classic session stands here.

    spark.remote=sc://HOST:PORT, or SPARK_REMOTE ─► connected ─► a session of the server's, by gRPC

1. A Connect session has no SparkContext, no RDDs and no plan that can be looked at: what needs them is refused by name.
2. Nothing here asks the server whether a session still lives: PySpark repeats a call to a server that is away for ten
   minutes. A session is lost when a call has said so.
3. Everything here blocks, but `is_connect` and `is_closed`.
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
    """Is it a session, or a DataFrame, of Spark Connect?"""
    return type(thing).__module__.startswith(_MODULE)


def is_closed(session: Any) -> bool:
    """Has this client been closed, by its user or by `forget`?"""
    return bool(session.client.is_closed)


def is_gone(error: BaseException, session: Any) -> bool:
    """Does this error of a call say that the server, or its half of the session, has ended?"""
    return is_closed(session) or _LOST.search(str(error)) is not None


def active() -> Any:
    """The Connect session that this process has made, if it has made one."""
    module = sys.modules.get("pyspark.sql.connect.session")
    session = None if module is None else module.SparkSession._get_default_session()
    return None if session is None or is_closed(session) else session


def connected(settings: Mapping[str, str]) -> Any:
    """Make a session of the server that `spark.remote` names. SparkUnavailableError if it cannot be had."""
    remote = settings[REMOTE]
    if not remote.startswith("sc://"):
        raise SparkUnavailableError(
            f"{REMOTE}={remote}: the address of a Spark Connect server is sc://HOST:PORT. For a Spark of this process "
            "give spark.master"
        )
    try:
        sessions = require("pyspark.sql.connect.session")
    except ImportError as error:  # PySpark says which package is missing
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
    """Close the client of a session that was lost: what waits for it fails, and no call is tried again."""
    try:
        session.client.close()
    except Exception:
        log.debug("while a lost session was closed", exc_info=True)


def end(session: Any) -> None:
    """Release a session that is ours on the server, and close its client. One that is closed stays so.

    Not by `session.stop()`: where PySpark has started the server for this process, that ends the server too.
    """
    if is_closed(session):
        return
    try:
        session.client.release_session()
    except Exception as error:
        log.debug("a session was not released", exc_info=error)
    forget(session)


def differing(session: Any, settings: Mapping[str, str]) -> dict[str, str | None]:
    """Which of these settings the session does not have, and what it has instead. What can be set is set."""
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
    """SparkSourceError if this is a Connect session, which cannot do `what` is for."""
    if is_connect(session):
        raise SparkSourceError(
            f"{what} needs a Spark session with its JVM in this process, and this is one of Spark Connect: {instead}"
        )
