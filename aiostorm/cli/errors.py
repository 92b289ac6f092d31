"""Mistakes of the user, as one message and an exit code."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..runtime import AiostormError


class CommandError(click.ClickException):
    """The command cannot be done: exit code 2, one message."""

    exit_code = 2


class ExposedCommandError(CommandError):
    """The process would be open to other machines without TLS and token: exit code 78 (EX_CONFIG)."""

    exit_code = 78


class UnavailableCommandError(CommandError):
    """There is no cluster, or its store cannot be reached: exit code 69 (EX_UNAVAILABLE)."""

    exit_code = 69


class DeniedCommandError(CommandError):
    """The token is refused, or its role does not allow this: exit code 77 (EX_NOPERM)."""

    exit_code = 77


class BusyCommandError(CommandError):
    """Another process does this already: exit code 75 (EX_TEMPFAIL)."""

    exit_code = 75


@contextlib.contextmanager
def errors(*, debug: bool) -> Iterator[None]:
    """Turn mistakes of the user into one message and exit code 2; Ctrl-C before the start into exit code 130."""
    from ..cluster import ControlError, TargetError
    from ..runtime import AiostormError
    from ..topology import ConfigError

    try:
        yield
    except (TargetError, ConfigError, ControlError) as error:
        if debug:
            traceback.print_exc()
        raise CommandError(str(error)) from error
    except AiostormError as error:
        refused = _refused(error)
        if refused is None:
            raise
        if debug:
            traceback.print_exc()
        raise refused from error
    except KeyboardInterrupt:
        sys.exit(130)


def _refused(error: AiostormError) -> CommandError | None:
    """An error because of the cluster, the network, the credentials or Spark; None for any other error."""
    from ..cluster import ClusterError, HomeError, NoClusterError
    from ..cluster.access import AuditError, DeniedError, RequestError
    from ..cluster.code import CodeError
    from ..cluster.coordination import CoordinationError, SessionLostError, UnavailableError
    from ..runtime import StoreError
    from ..spark import SparkUnavailableError, SparkWorkersError
    from ..transport import CredentialsError, ExposedError, NetworkError

    if isinstance(error, ExposedError):
        return ExposedCommandError(str(error))
    if isinstance(error, DeniedError):
        return DeniedCommandError(str(error))
    if isinstance(error, NoClusterError | UnavailableError | SessionLostError):
        return UnavailableCommandError(str(error))
    of_cluster = ClusterError | CoordinationError | CodeError | HomeError | StoreError | AuditError | RequestError
    if isinstance(error, of_cluster):
        return CommandError(str(error))
    cannot = CredentialsError | NetworkError | SparkUnavailableError | SparkWorkersError
    return CommandError(str(error)) if isinstance(error, cannot) else None
