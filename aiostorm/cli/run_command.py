"""`aiostorm run`: run a topology in this process, on workers or on Spark."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import CommandError, errors
from .importing import import_target, settings_of
from .logs import log_to
from .options import (
    TARGET_HELP,
    config_options,
    debug_option,
    log_format_option,
    security_options,
    snapshot_options,
    take_snapshot_options,
)
from .page import PageCommand, page_options, take_page_options

if TYPE_CHECKING:
    from ..topology import Config, Topology
    from .logs import LogFormat
    from .options import SnapshotOptions
    from .progress import Display
    from .report import RunReport
    from .run import Job
    from .signals import Interrupts

_LEFT_BEHIND: Final = "User code is still running after topology.graceful.stop.secs: it is abandoned."


def _writable(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a report that could not be written before the run, and not after it."""
    if value is not None:
        from ..cluster.report import unwritable

        if problem := unwritable(value):
            raise click.BadParameter(problem, ctx, param)
    return value


@click.command(
    cls=PageCommand,
    help=f"""Run a topology on this machine.

    The run ends when the spouts have finished and every message is processed. A topology without an end runs until
    Ctrl-C, which drains the messages in flight (a second Ctrl-C stops at once). Progress goes to stderr, the summary to
    stdout.

    With --workers, the topology runs on several processes, which are restarted when they die. Their output goes to
    stderr.

    {TARGET_HELP}

    With --guarantee exactly-once, the next run continues where this one ended, however it ended.

    With --spark, the workers run in Spark tasks, one in each slot; see docs/spark.md.

    \b
      aiostorm run --workers 4 pkg.mod:topology
      aiostorm run --guarantee exactly-once --state state pkg.mod:topology
      aiostorm run --ui pkg.mod:topology
      aiostorm run --spark spark://127.0.0.1:7077 --slots 4 pkg.mod:topology
      aiostorm run --workers 2 --remote-workers 2 --listen main.example:6700 --credentials main \\
          pkg.mod:topology
    """,
    epilog="Exit codes: 0 all processed, 1 failed or not all processed, 2 cannot run, 124 timed out, 130 Ctrl-C.",
)
@click.argument("target")
@click.argument("args", nargs=-1)
@config_options
@click.option("--name", help="Name of the running topology. Default: its own name, or the module's.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document at the end. Output of components goes to stderr."
)
@click.option("-q", "--quiet", "--no-progress", "quiet", is_flag=True, help="Do not show progress.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Drain and end after this many seconds (exit code 124).",
)
@click.option(
    "--loop",
    "loop",
    type=click.Choice(["auto", "uvloop", "asyncio"]),
    default="auto",
    show_default=True,
    help="Event loop. auto: uvloop if it is installed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Lowest level of log lines to show on stderr.",
)
@log_format_option
@click.option(
    "--workers", type=click.IntRange(0), default=0, metavar="N", help="Number of worker processes. Default: none."
)
@click.option(
    "--remote-workers",
    type=click.IntRange(0),
    default=0,
    metavar="M",
    help="Number of additional workers, which you start on other machines. Needs --listen.",
)
@click.option("--listen", default="", metavar="HOST:PORT", help="Address at which workers of other machines connect.")
@click.option("--spark", "master", default="", metavar="MASTER", help="Run the workers in tasks of this Spark master.")
@click.option("--slots", type=click.IntRange(1), metavar="N", help="Number of workers with --spark. Default: 1.")
@click.option(
    "--spark-conf", metavar="KEY=VALUE", multiple=True, help="Spark setting; overrides those of components. Repeatable."
)
@click.option("--py-files", metavar="FILE", multiple=True, help=".py or .zip file for the executors. Repeatable.")
@click.option("--ship", is_flag=True, help="Send aiostorm to executors on which it is not installed.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_writable,
    metavar="FILE",
    help="Write an HTML report of the run at its end: rates, mailboxes and latencies over time, errors, settings.",
)
@page_options
@snapshot_options
@click.option("--no-control", is_flag=True, help="Do not accept `aiostorm update` and `aiostorm pressure`.")
@security_options
@debug_option
def run(
    target: str,
    args: tuple[str, ...],
    file: Path | None,
    settings: tuple[str, ...],
    name: str | None,
    as_json: bool,
    quiet: bool,
    timeout_s: float | None,
    loop: str,
    log_level: str,
    log_format: LogFormat,
    workers: int,
    remote_workers: int,
    listen: str,
    master: str,
    slots: int | None,
    spark_conf: tuple[str, ...],
    py_files: tuple[str, ...],
    ship: bool,
    report: Path | None,
    no_control: bool,
    debug: bool,
    **security: Any,
) -> None:
    """Run a topology on this machine."""
    snapshots = take_snapshot_options(security)
    pages = take_page_options(security)
    with errors(debug=debug):
        _check_spark(master, slots, py_files or ship, workers or remote_workers)
        from .progress import choose_display
        from .run import Job
        from .signals import Interrupts
        from .start import check_open_files, check_title, take_credentials

        take_credentials()
        check_open_files(workers + remote_workers)
        page = pages.dashboard(security)
        if name is not None:
            check_title(name)
        log_to(logging.StreamHandler(), log_level, log_format)
        found, topology = import_target(target, args)
        config = settings_of(file, (*settings, *snapshots.settings), topology.config)
        _check_settings(snapshots, topology, config)
        title = name or topology.name or found
        check_title(title)
        log_to(logging.StreamHandler(), log_level, log_format, title)
        display = choose_display(title, config.mailbox_high_mark, quiet=quiet or log_format == "json")
        plan, spark_settings = None, _spark_settings(topology, master, spark_conf)
        if workers or remote_workers:
            from .worker import worker_plan

            plan = worker_plan(target, args, workers, remote_workers, listen, loop, log_level, **security)
        elif master:
            from .spark import spark_worker_plan

            given = (master, slots or 1, spark_settings, py_files, listen, loop, log_level)
            plan = spark_worker_plan(target, args, *given, ship=ship, **security)
        job = Job(title, topology, config, timeout_s, plan, not no_control, *snapshots.beginning, page, report)
        code = _run(job, display, Interrupts(), loop, log_level, as_json=as_json)
    sys.exit(code)


def _run(job: Job, display: Display, interrupts: Interrupts, loop: str, log_level: str, *, as_json: bool) -> int:
    import asyncio

    from ..runtime import loop_factory
    from .document import as_json as json_text
    from .progress import LiveTable
    from .report import as_text, stopped_text
    from .run import INTERRUPTED, exit_code
    from .run import run as run_job

    try:
        factory = loop_factory(loop)
    except ImportError as error:
        raise CommandError("uvloop is not installed here: pip install uvloop, or use --loop asyncio") from error
    if isinstance(display, LiveTable):
        interrupts.on_first = display.print_line
        log_to(display.log_handler(), log_level)
    out = sys.stdout

    def done(report: RunReport) -> None:
        click.echo(json_text(report) if as_json else as_text(report), file=out)
        if report.state in INTERRUPTED:
            click.echo(f"{report.state}; {stopped_text(report)}", err=True)
            interrupts.end_within(job.config.graceful_stop_s, exit_code(report, interrupts), _LEFT_BEHIND)
        for problem in report.problems:
            click.echo(f"Error: {problem}", err=True)

    prints = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with prints, interrupts, asyncio.Runner(loop_factory=factory) as runner:
        report = runner.run(run_job(job, display, interrupts, done))
    return exit_code(report, interrupts)


def _check_settings(snapshots: SnapshotOptions, topology: Topology, config: Config) -> None:
    from .start import check_plan

    snapshots.check(config)
    check_plan(topology, config)


def _spark_settings(topology: Topology, master: str, spark_conf: tuple[str, ...]) -> dict[str, str]:
    if not (master or spark_conf or any(hasattr(c.template, "spark_session") for c in topology.components.values())):
        return {}
    from .spark import spark_settings_of

    return spark_settings_of(topology, master, spark_conf)


def _check_spark(master: str, slots: int | None, more: Any, workers: int) -> None:
    if not master and (slots or more):
        raise CommandError("--slots, --py-files and --ship need --spark MASTER")
    if master and workers:
        raise CommandError("--spark runs all workers on executors: remove --workers and --remote-workers")
