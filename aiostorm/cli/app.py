"""The `aiostorm` command: its commands, each a module that is imported when it is asked for.

1. Exit codes: 0 all is well; 1 the topology failed or did not process every message; 2 what was asked for cannot be
   done (a target, an option, a configuration); 78 it would be open to other machines without TLS and token; for 124,
   130 and 143 see `run`, for 69 `cluster/worker/worker`.
2. What a person did wrong is said in one message without a traceback; `--debug` shows the traceback.
3. The standard output has results only; progress, logs and errors go to the standard error.
4. Only here: signal handlers, an event loop of our own, logging that is configured. A command imports what it needs
   when it runs, so that `--help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from .. import __version__

COMMANDS: Final = {
    "certs": "Certificates and the token with which nodes of a cluster know one another.",
    "config": "Settings: which there are, which hold, and where they come from.",
    "demo": "Run a topology that makes its own data, with a bolt that is too slow.",
    "doctor": "Look at this machine: what aiostorm and its parts need, what is missing, and how to get it.",
    "graph": "Show the graph of a topology.",
    "pressure": "Show the backpressure of a running topology.",
    "run": "Run a topology here and now.",
    "spare": "",
    "update": "Change settings of a running topology.",
    "worker": "Be a worker: a process that does a part of a topology's work for an `aiostorm run`.",
}
"""Name → what `aiostorm --help` says of it; empty: it is not shown. NAME is a click command in NAME_command.py."""


class Commands(click.Group):
    """A group whose commands are the table's. Only the one that is asked for is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None: there is none."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f".{cmd_name}_command", __package__), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the table says: click's own would import every command for its first line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, text in sorted(COMMANDS.items()) if text])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="aiostorm")
def cli() -> None:
    """Storm topologies on asyncio.

    \b
    Look at one that makes its own data:
      aiostorm demo
    Count the words of Python's standard library (in a checkout):
      aiostorm run examples.word_count:topology
    Any topology of yours, with other settings:
      aiostorm run mypackage.jobs:topology -c topology.max.spout.pending=500
    Draw it, and see which settings hold:
      aiostorm graph mypackage.jobs:topology --format mermaid
      aiostorm config show mypackage.jobs:topology
    """


def main() -> None:
    """The entry point."""
    cli(prog_name="aiostorm")
