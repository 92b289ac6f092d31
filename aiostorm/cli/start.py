"""Start: what is looked at before a command loads code of the user's: the environment, open files, names."""

from __future__ import annotations

import os

from .errors import CommandError

FILES = 32
"""A process of ours has so many open, at most, beside those for workers and of the user's code."""

FILES_OF_A_WORKER = 12
"""For each other process: pipes, connections, and those of the spare."""

_taken: dict[str, str] = {}


def take_credentials() -> None:
    """Take the token out of the environment: neither user code nor the processes that it starts find it there."""
    from ..transport import CREDENTIALS_VARIABLE

    value = os.environ.pop(CREDENTIALS_VARIABLE, None)
    if value is not None:
        _taken[CREDENTIALS_VARIABLE] = value


def taken_credentials() -> dict[str, str]:
    """What was taken."""
    return dict(_taken)


def check_open_files(others: int) -> None:
    """CommandError if this process may not have as many open files as it needs for itself and so many others."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES + FILES_OF_A_WORKER * others
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise CommandError(
            f"at most {limit} files may be open here, and {needed} are needed: `ulimit -n {max(1024, needed)}`"
        )


def check_title(name: str) -> None:
    """CommandError if a topology cannot be called so."""
    from ..cluster import check_name

    try:
        check_name(name)
    except ValueError as error:
        raise CommandError(f"--name: {error}") from error


def check_worker_name(name: str) -> None:
    """CommandError if a worker cannot be called so."""
    from ..transport import Identity

    try:
        Identity(name)
    except ValueError as error:
        raise CommandError(f"--name: {error}") from error
    if not name.strip("."):
        raise CommandError(f"--name: {name!r} is the name of a folder")
