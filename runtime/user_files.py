"""User files: which code is the user's, and which is of this package or of asyncio."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

# As they are imported, without following links: that is how they appear in a stack.
_PACKAGE_ROOTS = tuple(f"{root}{os.sep}" for root in (Path(__file__).parent.parent, Path(asyncio.__file__).parent))


def is_ours(filename: str) -> bool:
    """Does the file belong to this package or to asyncio?"""
    # Examples and tests are inside a checkout's root, but are user code.
    for root in _PACKAGE_ROOTS:
        if filename.startswith(root):
            rest = filename[len(root) :].replace("\\", "/")
            return not rest.startswith(("examples/", "tests/", "benchmarks/", ".venv/"))
    return False
