"""Logs: where the log lines of the command line go."""

from __future__ import annotations

import logging


def log_to(handler: logging.Handler, level: str) -> None:
    """All logging of the process goes there. Before the target is imported: its own `basicConfig` does nothing then."""
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "aiostorm_cli", False)]:
        root.removeHandler(old)
    setattr(handler, "aiostorm_cli", True)  # noqa: B010 - ours, to be found again
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each connection that is closed
