"""Assets: the files of the page, read once. Only what is in this table is served: no name becomes a path."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file: its bytes, its type, and its tag (for If-None-Match)."""

    body: bytes
    content_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Path below the page's address → file; `` is the page itself."""
    found: dict[str, Asset] = {}
    for folder in ("static", "vendor"):
        for file in sorted(resources.files(__package__ or "ui").joinpath(folder).iterdir(), key=lambda each: each.name):
            suffix = "." + file.name.rpartition(".")[2]
            if suffix in _TYPES:
                body = file.read_bytes()
                tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                found[f"{folder}/{file.name}"] = Asset(body, _TYPES[suffix], tag)
    found[""] = found.pop("static/index.html")
    return found
