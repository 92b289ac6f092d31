"""Names of running topologies. They are part of files, actors, log lines and commands."""

from __future__ import annotations

from typing import Final

MOST: Final = 128


def check_name(name: str) -> None:
    """ValueError, in one line, if this is not a valid name."""
    wrong = (
        not 0 < len(name) <= MOST
        or not name.isprintable()
        or any(character.isspace() or character in "/\\" for character in name)
        or name.startswith(".")
        or ".." in name
    )
    if wrong:
        raise ValueError(
            f"a topology's name is 1 to {MOST} printable characters, without blanks, '/', '\\' or '..', and begins "
            f"with no '.': {name[: 2 * MOST]!r}"
        )
