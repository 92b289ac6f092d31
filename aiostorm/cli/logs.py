"""Logs: where the log lines of the command line go."""

from __future__ import annotations

import logging


def log_to(handler: logging.Handler, level: str) -> None:
    """Send all logging to `handler`. Called before the target is imported: its `basicConfig` has no effect then."""
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "aiostorm_cli", False)]:
        root.removeHandler(old)
    setattr(handler, "aiostorm_cli", True)  # noqa: B010 - to find our handler again
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs each closed connection
