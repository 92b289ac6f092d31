"""Quantities on the command line: sizes as 512MiB, times as 7d. Types of click's options."""

from __future__ import annotations

import re
from typing import Final

import click

_BYTES: Final = {"": 1, "B": 1, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "TIB": 1024**4}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_QUANTITY: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)", re.ASCII)


def size(text: str) -> int:
    """Bytes: a number, or one with B, KiB, MiB, GiB or TiB. click.BadParameter."""
    found = _QUANTITY.fullmatch(text.strip())
    unit = _BYTES.get(found.group(2).upper()) if found else None
    if found is None or unit is None:
        raise click.BadParameter(f"{text!r} is no size: give bytes, or a number with KiB, MiB, GiB or TiB, as 512MiB")
    return round(float(found.group(1)) * unit)


def duration(text: str) -> float:
    """Seconds: a number, or one with s, m, h or d. click.BadParameter."""
    found = _QUANTITY.fullmatch(text.strip())
    unit = _SECONDS.get(found.group(2)) if found else None
    if found is None or unit is None:
        raise click.BadParameter(f"{text!r} is no time: give seconds, or a number with s, m, h or d, as 7d")
    return float(found.group(1)) * unit
