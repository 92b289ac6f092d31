"""`aiostorm demo`: run a topology that makes its own data, and explain its output."""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import click

from .page import PageCommand, page_options

TARGET: Final = "aiostorm.cli.demo"

WORDS: Final = """\
A shop, for about {seconds:g} s. Orders come as fast as they are accepted; payments take 4 ms each. In the output:

  paced               after some seconds: the spout waits, because a bolt cannot keep up
  failed, replayed    a payment in some hundred is declined, and its order is emitted again
  windows             sales in ten minutes of the shop's own time, two seconds an order

The program: {path}
Ctrl-C ends it earlier. With --workers 2 it runs on processes; `aiostorm run FILE.py` runs your own program.
"""


@click.command(cls=PageCommand)
@page_options
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=20.0, show_default=True, help="Approximate run time."
)
@click.option("--workers", type=click.IntRange(0), default=0, metavar="N", help="Number of workers. Default: none.")
@click.pass_context
def demo(ctx: click.Context, /, seconds: float, workers: int, **page: Any) -> None:
    """Run a topology that makes its own data, with a bolt that is too slow.

    It needs no other service, and shows how a spout is paced, how failed messages are replayed, and what windows emit.
    """
    group = ctx.find_root().command
    run = group.get_command(ctx, "run") if isinstance(group, click.Group) else None
    spec = importlib.util.find_spec(TARGET)
    if run is None or spec is None:
        raise click.ClickException("this installation of aiostorm is incomplete: install it again")
    click.echo(WORDS.format(seconds=seconds, path=spec.origin), err=True)
    ctx.invoke(run, target=f"{TARGET}:topology", args=(f"{seconds:g}",), workers=workers, **page)
