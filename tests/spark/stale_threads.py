"""What a job leaves behind in its process."""

from __future__ import annotations

import asyncio
import threading

ENDS_S = 5.0
"""A thread that was waiting for a JVM ends soon after the JVM."""


async def threads_left() -> list[str]:
    """The names of Spark's threads that do not end."""
    left = [thread for thread in threading.enumerate() if thread.name.startswith("spark-")]
    for thread in left:
        await asyncio.to_thread(thread.join, ENDS_S)
    return [thread.name for thread in left if thread.is_alive()]
