"""The browser of the tests, if there is one: Chromium of the system, driven by playwright (dependency group `e2e`)."""

from __future__ import annotations

import os
import shutil
from typing import Any, Final

CHROMIUM: Final = (
    os.environ.get("AIOSTORM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
)

LAUNCH: Final[dict[str, Any]] = {
    "executable_path": CHROMIUM,
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
}
"""It asks no server but the one that it is sent to."""


def missing() -> str:
    """Why there is no browser, and how to get one; empty: there is one."""
    if not CHROMIUM:
        return "no Chromium here: apt-get install chromium"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "no playwright here: uv sync --group e2e"
    return ""
