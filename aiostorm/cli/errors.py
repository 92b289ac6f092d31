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
    """An error because of the network, the credentials or Spark; None for any other error."""
    from ..spark import SparkUnavailableError, SparkWorkersError
    from ..transport import CredentialsError, ExposedError, NetworkError

    if isinstance(error, ExposedError):
        return ExposedCommandError(str(error))
    cannot = CredentialsError | NetworkError | SparkUnavailableError | SparkWorkersError
    return CommandError(str(error)) if isinstance(error, cannot) else None
