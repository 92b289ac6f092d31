"""Names of running topologies, which are part of files, actors, log lines and commands; and of remote workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MOST: Final = 128

_WORKER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOCAL: Final = re.compile(r"worker-[0-9]+")


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


def remote_names(workers: int | Sequence[str], *, has_local: bool) -> list[str]:
    """The names of remote workers, of which the number or the names are given. ValueError.

    `has_local`: there are local workers, too, whose names are worker-1, worker-2, …
    """
    if isinstance(workers, int):
        if workers < 0:
            raise ValueError(f"a number of workers is 0 or more, not {workers}")
        return [f"remote-{i + 1}" for i in range(workers)]
    names = [workers] if isinstance(workers, str) else list(workers)
    for name in names:
        if not _WORKER.fullmatch(name) or name == "parent" or name.startswith("driver-"):
            raise ValueError(
                "a worker's name is 1 to 64 of A-Z a-z 0-9 _ . -, not 'parent', and does not begin with 'driver-': "
                f"{name[:128]!r}"
            )
        if has_local and _LOCAL.fullmatch(name):
            raise ValueError(f"{name!r} is the name of a local worker: name the remote ones otherwise")
    if len(set(names)) < len(names):
        raise ValueError(f"two remote workers have the same name: {', '.join(names)}")
    return names
