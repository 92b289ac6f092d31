"""Options of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

TARGET_HELP: Final = """TARGET is a topology, or a function that makes one; ARGS are the arguments of that function:

    \b
      pkg.mod:topology              an attribute of a module (default: topology)
      pkg.mod:make                  a function; ARGS are its arguments
      'pkg.mod:make("a", n=3)'      a function and its arguments, as Python literals
      path/file.py:topology         the same, in a file
"""

debug_option = click.option("--debug", is_flag=True, help="Show tracebacks of errors in the target or configuration.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def config_options(command: Any) -> Any:
    """The options for settings."""
    for option in (
        click.option("--config", "file", type=click.Path(path_type=Path), help="YAML file with settings."),
        click.option(
            "-c",
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Set one setting, by Storm's key or by name; overrides the file and the environment. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def security_options(command: Any) -> Any:
    """The options of commands that connect to other machines."""
    path = click.Path(path_type=str, exists=True, dir_okay=False)
    options = (
        click.option(
            "--credentials",
            "directory",
            type=click.Path(path_type=str, exists=True, file_okay=False),
            metavar="DIR",
            help="Folder that `aiostorm certs node` has made for this node; replaces the next four options.",
        ),
        click.option("--token-file", type=path, help="The cluster's token (0600). Default: AIOSTORM_CREDENTIALS."),
        click.option("--tls-cert", type=path, help="This node's certificate. See `aiostorm certs`."),
        click.option("--tls-key", type=path, help="This node's private key (0600)."),
        click.option("--tls-ca", type=path, help="The certificate of the cluster's CA."),
        click.option(
            "--insecure", is_flag=True, help="Allow other machines without TLS and token, in a private network only."
        ),
    )
    for option in reversed(options):  # decorators are applied from the bottom: --help shows the order above
        command = option(command)
    return command
