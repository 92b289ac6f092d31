"""The `aiostorm` command: a table of commands, each a module that is imported when it is used.

1. Exit codes: 0 success; 1 the topology failed or did not process every message; 2 the command cannot be done (a
   target, an option, a configuration); 77 a token is refused, or its role does not allow it; 78 it would be open to
   other machines without TLS and token; for 124, 130 and 143 see `run`, for 69 `cluster/worker/worker`.
2. Mistakes of the user are reported in one message without a traceback; `--debug` shows the traceback.
3. Only results go to the standard output; progress, logs and errors go to the standard error.
4. Only the command line has signal handlers, its own event loop and configured logging. A command imports what it needs
   when it runs, so that `--help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from .. import __version__

COMMANDS: Final = {
    "activate": "Let the spouts of a topology of a cluster emit again.",
    "certs": "Make the certificates and the token with which the nodes of a cluster authenticate each other.",
    "check-target": "",
    "config": "Show, describe and check settings.",
    "deactivate": "Let the spouts of a topology of a cluster pause.",
    "demo": "Run a topology that makes its own data, with a bolt that is too slow.",
    "doctor": "Check this machine: what aiostorm needs, what is missing, and how to install it.",
    "graph": "Print the graph of a topology.",
    "kill": "End a topology of a cluster.",
    "list": "List the topologies of a cluster.",
    "logs": "Show what the processes of a topology of a cluster have logged.",
    "nimbus": "Run the nimbus of a cluster: it decides on which nodes topologies run.",
    "nodes": "List the nodes of a cluster, and who leads.",
    "parent": "",
    "pressure": "Show the backpressure of a running topology.",
    "rebalance": "Spread a topology of a cluster anew over its nodes.",
    "run": "Run a topology on this machine.",
    "show": "Show a topology of a cluster: what was submitted, where it runs, its last errors.",
    "slot": "",
    "snapshots": "List the snapshots of a topology.",
    "spare": "",
    "submit": "Hand a topology over to a cluster, which runs it until it is killed.",
    "supervisor": "Run the supervisor of a node: it runs the topologies that nimbus assigns to it.",
    "token": "Make, list and revoke the tokens of those who may order something of a cluster.",
    "top": "Show running topologies in the terminal: rates, mailboxes, latencies, why spouts wait, errors.",
    "trace": "Trace one tuple tree of a running topology.",
    "ui": "Show topologies that run in other programs in a browser.",
    "update": "Change settings of a running topology.",
    "worker": "Run a worker: a process that runs a part of a topology for an `aiostorm run` on another machine.",
}
"""Name → its help text in `aiostorm --help`; empty: not shown. NAME is a click command in NAME_command.py (- as _)."""


class Commands(click.Group):
    """The commands of the table. Only the command that is used is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        attribute = cmd_name.replace("-", "_")
        found: click.Command = getattr(import_module(f".{attribute}_command", __package__), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help texts of the table: click's own method would import every command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, text in sorted(COMMANDS.items()) if text])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="aiostorm")
def cli() -> None:
    """Run Storm topologies on asyncio.

    \b
    Run a demo that makes its own data:
      aiostorm demo
    Count the words of Python's standard library (in a checkout):
      aiostorm run examples.word_count:topology
    Run your own topology, with another setting:
      aiostorm run mypackage.jobs:topology -c topology.max.spout.pending=500
    Draw it, and show its settings:
      aiostorm graph mypackage.jobs:topology --format svg > graph.svg
      aiostorm config show mypackage.jobs:topology
    """


def main() -> None:
    """The entry point of the program."""
    cli(prog_name="aiostorm")
