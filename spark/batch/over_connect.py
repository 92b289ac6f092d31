"""Over Connect: a batch without a JVM in this process. Executors push; the end of the job gives its number of
partitions.

    DataFrame ─► steady: in a clone of its session, without adaptive execution ─► mapInArrow(pusher) ─► partitions

1. The plan runs in a cloned session with its own settings: the user's session is not changed. Adaptive execution is off
   there: several tasks, or a second attempt, each run the job, and its partitions must be the same each time.
2. The data of the plan cannot be identified (no files, no versions), so progress= is not possible.
3. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..connect import end, forget, is_closed, is_connect, is_ended, limit_retries
from ..errors import SparkJobError, SparkLostError, SparkSourceError

NOT_HERE: Final = "over Spark Connect partitions cannot be fetched: no JVM of this process holds them"

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


def steady(frame: Any, settings: Mapping[str, Any]) -> Any:
    """The same DataFrame in a session of its own with these settings. SparkSourceError if that is not possible."""
    session = frame.sparkSession
    if session.conf.get(_ADAPTIVE, "true").lower() == "false":
        return frame
    try:
        clone = session.cloneSession()
    except Exception as error:  # an older client (AttributeError) or server
        if is_ended(error, session):
            raise
        raise _needs_setting(error) from error
    limit_retries(clone)
    try:
        for key, value in {**settings, _ADAPTIVE: "false"}.items():
            clone.conf.set(key, str(value))
        again = type(frame)(frame._plan, clone)
        if again.schema != frame.schema:
            raise ValueError("it has other columns there")
    except Exception as error:  # the plan refers to something of its own session, such as a checkpoint
        end(clone)
        if is_ended(error, session):
            raise
        raise _needs_setting(error) from error
    return again


def tag_jobs(frame: Any, group: str) -> None:
    """Tag the jobs that this thread runs in the frame's session, for `interrupt`."""
    frame.sparkSession.addTag(_tag(group))


def interrupt(frame: Any, group: str) -> None:
    """End the jobs of a group."""
    frame.sparkSession.interruptTag(_tag(group))


def _tag(group: str) -> str:
    return group.replace(",", ";")  # no tag may hold a comma


def released(frame: Any, session: Any) -> None:
    """End the session that `steady` has made for a frame, if it has."""
    own = frame.sparkSession
    if is_connect(own) and own is not session:
        if is_closed(session):  # the server has ended: it is not called again
            forget(own)
        else:
            end(own)


def lost_or_failed(error: Exception, session: Any, message: str) -> Exception:
    """The error for a failed call. A session that was lost is closed, so that the next one is made anew."""
    if not is_ended(error, session):
        return SparkJobError(message)
    forget(session)
    return SparkLostError(message)


def _needs_setting(error: Exception) -> SparkSourceError:
    return SparkSourceError(
        "SparkBatchSpout over Spark Connect reads in a clone of the session, without adaptive execution (partitions "
        f"must be the same in each attempt), and this DataFrame cannot be read there: {str(error)[:300]}. Turn it off "
        f'in the session itself, before the topology starts: spark.conf.set("{_ADAPTIVE}", False)'
    )
