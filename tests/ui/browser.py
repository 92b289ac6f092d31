"""The browser of the tests, if there is one: Chromium of the system, driven by playwright (dependency group `e2e`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

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


AXE: Final = os.environ.get("AIOSTORM_AXE", "")
"""axe.min.js, which checks accessibility: python -m tests.ui.vendored --axe FILE."""

REQUIRED: Final = os.environ.get("AIOSTORM_E2E") == "required"
"""What is missing makes tests fail, and not be skipped."""


def missing() -> str:
    """Why there is no browser, and how to get one; empty: there is one."""
    if not CHROMIUM:
        return "no Chromium here: apt-get install chromium"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "no playwright here: uv sync --group e2e"
    return ""


needs_axe = pytest.mark.skipif(
    not AXE and not REQUIRED, reason="AIOSTORM_AXE names no file: python -m tests.ui.vendored --axe axe.min.js"
)


def axe() -> str:
    """The source of axe-core. AssertionError if it is required, and not there."""
    assert AXE, "axe-core is required: python -m tests.ui.vendored --axe axe.min.js, and AIOSTORM_AXE=axe.min.js"
    return Path(AXE).read_text("utf-8")
