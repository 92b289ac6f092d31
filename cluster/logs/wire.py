"""Wire: a request for lines of logs and its response, each as one frame of JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from .pieces import LogsAsked, ProcessLines

LOGS: Final = "logs"
"""The purpose of the credentials for it: those of workers are others."""

MAX_REQUEST_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """The next lines of each process; or why they cannot be read."""

    processes: tuple[ProcessLines, ...] = ()
    error: str = ""


ASKED: Final = TypeAdapter(LogsAsked)
ANSWER: Final = TypeAdapter(Answer)
