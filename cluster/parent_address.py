"""Parent address: where the parent of a topology listens, in a file of each node with workers of it.

    the parent ─► /parents/NAME ─► the supervisors of its workers ─► HOME/run/…/parent.address ─► the workers

A parent that is started on another node has another address. Its workers look into the file again and again: they need
no client of the store, and find the next parent also when they have lost the link to the last one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from ..runtime import write_file

MAX_BYTES: Final = 512
"""Of an address; what is longer is none."""


def write_address(path: Path, address: str) -> None:
    """Keep it; empty: it is not known any more. OSError."""
    if address:
        write_file(path, address.encode())
        return
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def read_address(path: Path) -> str:
    """The address; empty: it is not known yet, or cannot be read now."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return ""
    try:
        return data.decode() if len(data) <= MAX_BYTES else ""
    except UnicodeDecodeError:
        return ""
