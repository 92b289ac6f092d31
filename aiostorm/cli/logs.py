"""Logs: where the log lines of the command line go, and what they look like.

    text   12:00:01 WARNING aiostorm.cluster: worker-1 (pid 7) has ended: signal 9
    json   {"time": "2026-11-26T12:00:01.250+00:00", "level": "warning", "logger": "aiostorm.cluster", "message": …}

A JSON line has beside these, where they are known: `topology`, `component`, `task`, `worker`, and for a tuple that
failed `tuple` and `messages`: the tree and the index of each message that it belongs to. What a worker prints or logs
is a JSON line for each of its lines.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON. `topology`: the one that runs, if there is only one."""

    def __init__(self, topology: str = "") -> None:
        from ..cluster.worker import where_of

        super().__init__()
        self._topology = topology
        self._where_of = where_of

    def format(self, record: logging.LogRecord) -> str:
        """The line. A value that JSON cannot represent becomes text."""
        known: dict[str, Any] = dict(getattr(record, "aiostorm", None) or self._where_of(record.threadName or ""))
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": known.pop("logger", record.name),
            "message": known.pop("text", None) or record.getMessage(),
        }
        if self._topology:
            entry["topology"] = self._topology
        entry |= {key: value for key, value in known.items() if value not in ("", None)}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            entry["stack"] = self.formatStack(record.stack_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def json_of(name: str, lines: Mapping[str, Iterable[str]]) -> str:
    """The lines of a topology's processes as one JSON document."""
    found = [{"process": process, "line": line} for process, read in lines.items() for line in read]
    return json.dumps({"topology": name, "lines": found}, indent=2, ensure_ascii=False)


def formatter(log_format: LogFormat, topology: str = "") -> logging.Formatter:
    """What formats records."""
    if log_format == "json":
        return JsonFormatter(topology)
    return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")


def log_to(handler: logging.Handler, level: str, log_format: LogFormat = "text", topology: str = "") -> None:
    """Send all logging to `handler`. Called before the target is imported: its `basicConfig` has no effect then."""
    handler.setFormatter(formatter(log_format, topology))
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "aiostorm_cli", False)]:
        root.removeHandler(old)
    setattr(handler, "aiostorm_cli", True)  # noqa: B010 - to find our handler again
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs each closed connection
