"""Start: checks before a command imports user code: the environment, open files, names."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from .errors import CommandError

if TYPE_CHECKING:
    from ..topology import Config, Topology
    from .logs import LogFormat

FILES = 32
"""The most open files of an aiostorm process, without those for workers and those of user code."""

FILES_OF_A_WORKER = 12
"""Open files for each other process: pipes, connections, and those of the spare."""

_taken: dict[str, str] = {}


def take_credentials() -> None:
    """Take the token out of the environment: user code and its child processes must not find it there."""
    from ..transport import CREDENTIALS_VARIABLE

    value = os.environ.pop(CREDENTIALS_VARIABLE, None)
    if value is not None:
        _taken[CREDENTIALS_VARIABLE] = value


def taken_credentials() -> dict[str, str]:
    """The credentials that were taken out of the environment."""
    return dict(_taken)


def check_open_files(others: int) -> None:
    """CommandError if the limit of open files is too low for this process and `others` more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES + FILES_OF_A_WORKER * others
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise CommandError(
            f"at most {limit} files may be open here, but {needed} are needed: `ulimit -n {max(1024, needed)}`"
        )


def limit_data(size_bytes: int) -> None:
    """Let allocations fail that would give this process, and its children each, more memory of their own."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = size_bytes if hard == resource.RLIM_INFINITY else min(size_bytes, hard)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    except (OSError, ValueError) as error:
        raise CommandError(f"--data-limit {size_bytes}: {error}") from error


def configure_daemon(level: str, log_format: LogFormat) -> None:
    """Send all logging of a daemon to the standard error."""
    from .logs import log_to

    log_to(logging.StreamHandler(), level, log_format)


def check_title(name: str) -> None:
    """CommandError if it is not a valid name of a topology."""
    from ..cluster import check_name

    try:
        check_name(name)
    except ValueError as error:
        raise CommandError(f"--name: {error}") from error


def check_plan(topology: Topology, config: Config) -> None:
    """CommandError for what the topology cannot do with this configuration."""
    from ..topology import TopologyError, make_plan

    try:
        make_plan(topology, config)
    except TopologyError as error:
        raise CommandError(str(error)) from error


def check_worker_name(name: str) -> None:
    """CommandError if it is not a valid name of a worker."""
    from ..transport import Identity

    try:
        Identity(name)
    except ValueError as error:
        raise CommandError(f"--name: {error}") from error
    if not name.strip("."):
        raise CommandError(f"--name: {name!r} is the name of a folder")
