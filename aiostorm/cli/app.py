"""The `aiostorm` command: run a topology here and now, draw it, look at its configuration and at this machine.

1. Exit codes: 0 all is well; 1 the topology failed or did not process every message; 2 what was asked for cannot be
   done (a target, an option, a configuration); 78 it would be open to other machines without TLS and token; for 124,
   130 and 143 see `cli_run`, for 69 `cluster/worker/worker`.
2. What a person did wrong is said in one message without a traceback; `--debug` shows the traceback.
3. The standard output has results only; progress, logs and errors go to the standard error.
4. Only here: signal handlers, an event loop of our own, logging that is configured. A command imports what it needs
   when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from .certs import certs
from .control_command import pressure, update
from .demo_command import demo
from .errors import CommandError, errors
from .worker_command import debug_option, security_options, spare, worker

if TYPE_CHECKING:
    from ..topology import Config, Topology
    from .progress import Display
    from .report import RunReport
    from .run import Job
    from .signals import Interrupts

_TARGET_HELP = """TARGET names a topology, or a function that makes one; ARGS are given to that function:

    \b
      pkg.mod:topology              an attribute of a module (default: topology)
      pkg.mod:make                  a function; ARGS are its arguments
      'pkg.mod:make("a", n=3)'      a function and its arguments, as Python literals
      path/file.py:topology         the same, in a file
"""

_LEFT_BEHIND = "User code still runs (topology.graceful.stop.secs is over): it is left behind."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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


cli.add_command(certs)
cli.add_command(demo)
cli.add_command(pressure)
cli.add_command(update)


def _config_options(command: Any) -> Any:
    for option in (
        click.option("--config", "file", type=click.Path(path_type=Path), help="Settings from a YAML file."),
        click.option(
            "-c",
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="One setting, by Storm's key or by name; over the file and the environment. May be repeated.",
        ),
    ):
        command = option(command)
    return command


@cli.command(
    help=f"""Run a topology here and now.

    It ends when its spouts have finished and every message is processed; one without an end runs until Ctrl-C, which
    drains what is under way (a second Ctrl-C stops at once). Progress goes to stderr, the summary to stdout.

    With --workers it runs on so many processes, which are started again when they die. What they print goes to stderr.

    {_TARGET_HELP}

    With --spark the workers run in tasks of a Spark, one in each slot; see docs/spark.md.

    \b
      aiostorm run --workers 4 pkg.mod:topology
      aiostorm run --spark spark://127.0.0.1:7077 --slots 4 pkg.mod:topology
      aiostorm run --workers 2 --remote-workers 2 --listen main.example:6700 --credentials main \\
          pkg.mod:topology
    """,
    epilog="Exit codes: 0 all processed, 1 failed or not all processed, 2 cannot run, 124 timed out, 130 Ctrl-C.",
)
@click.argument("target")
@click.argument("args", nargs=-1)
@_config_options
@click.option("--name", help="Name of the running topology (default: its own, or the module's).")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document at the end. Prints of components go to stderr."
)
@click.option("-q", "--quiet", "--no-progress", "quiet", is_flag=True, help="No progress on the standard error.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Drain and end after so long (exit code 124).",
)
@click.option(
    "--loop",
    "loop",
    type=click.Choice(["auto", "uvloop", "asyncio"]),
    default="auto",
    show_default=True,
    help="Event loop; auto: uvloop where it is installed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Log lines to show on the standard error.",
)
@click.option(
    "--workers", type=click.IntRange(0), default=0, metavar="N", help="Run it on N processes. Default: in this one."
)
@click.option(
    "--remote-workers",
    type=click.IntRange(0),
    default=0,
    metavar="M",
    help="And on M more, that you start on other machines; needs --listen.",
)
@click.option("--listen", default="", metavar="HOST:PORT", help="Where workers of other machines reach this process.")
@click.option("--spark", "master", default="", metavar="MASTER", help="Workers in tasks of this Spark.")
@click.option("--slots", type=click.IntRange(1), metavar="N", help="So many of them (default 1); needs --spark.")
@click.option(
    "--spark-conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's, over those of components."
)
@click.option("--py-files", metavar="FILE", multiple=True, help="A .py or .zip for the executors. May be repeated.")
@click.option("--ship", is_flag=True, help="Bring aiostorm to executors where it is not installed.")
@click.option("--no-control", is_flag=True, help="Not to be found by `aiostorm update` and `aiostorm pressure`.")
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
    workers: int,
    remote_workers: int,
    listen: str,
    master: str,
    slots: int | None,
    spark_conf: tuple[str, ...],
    py_files: tuple[str, ...],
    ship: bool,
    no_control: bool,
    debug: bool,
    **security: Any,
) -> None:
    """See `help`."""
    with errors(debug=debug):
        _check_spark(master, slots, py_files or ship, workers or remote_workers)
        from .progress import choose_display
        from .run import Job
        from .signals import Interrupts
        from .start import check_open_files, check_title, take_credentials

        take_credentials()
        check_open_files(workers + remote_workers)
        if name is not None:
            check_title(name)
        _log_to(logging.StreamHandler(), log_level)
        found, topology = _load(target, args)
        config = _settings(file, settings, topology.config)
        title = name or topology.name or found
        check_title(title)
        display = choose_display(title, config.mailbox_high_mark, quiet=quiet)
        plan = None
        spark_settings: dict[str, str] = {}
        if master or spark_conf or any(hasattr(c.template, "spark_session") for c in topology.components.values()):
            from .spark import spark_settings_of

            spark_settings = spark_settings_of(topology, master, spark_conf)
        if workers or remote_workers:
            from .worker import worker_plan

            plan = worker_plan(target, args, workers, remote_workers, listen, loop, log_level, **security)
        elif master:
            from .spark import spark_worker_plan

            given = (master, slots or 1, spark_settings, py_files, listen, loop, log_level)
            plan = spark_worker_plan(target, args, *given, ship=ship, **security)
        job = Job(title, topology, config, timeout_s, plan, control=not no_control)
        code = _run(job, display, Interrupts(), loop, log_level, as_json=as_json)
    sys.exit(code)


def _run(job: Job, display: Display, interrupts: Interrupts, loop: str, log_level: str, *, as_json: bool) -> int:
    import asyncio

    from ..runtime import loop_factory
    from .progress import LiveTable
    from .report import as_json as json_text
    from .report import as_text, pending_text
    from .run import INTERRUPTED, exit_code
    from .run import run as run_job

    try:
        factory = loop_factory(loop)
    except ImportError as error:
        raise CommandError("uvloop is not installed here: pip install uvloop, or use --loop asyncio") from error
    if isinstance(display, LiveTable):
        interrupts.on_first = display.say
        _log_to(display.log_handler(), log_level)
    out = sys.stdout

    def done(report: RunReport) -> None:
        click.echo(json_text(report) if as_json else as_text(report), file=out)
        if report.state in INTERRUPTED:
            click.echo(f"{report.state}; pending: {pending_text(report.pending)}", err=True)
            interrupts.end_within(job.config.graceful_stop_s, exit_code(report, interrupts), _LEFT_BEHIND)
        for problem in report.problems:
            click.echo(f"Error: {problem}", err=True)

    prints = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with prints, interrupts, asyncio.Runner(loop_factory=factory) as runner:
        report = runner.run(run_job(job, display, interrupts, done))
    return exit_code(report, interrupts)


cli.add_command(worker)
cli.add_command(spare)


@cli.command(help=f"Show the graph of a topology.\n\n    {_TARGET_HELP}")
@click.argument("target")
@click.argument("args", nargs=-1)
@click.option("--format", "form", type=click.Choice(["text", "mermaid"]), default="text", show_default=True)
@debug_option
def graph(target: str, args: tuple[str, ...], form: str, debug: bool) -> None:
    """See `help`."""
    with errors(debug=debug):
        _, topology = _load(target, args)
        click.echo(topology.to_mermaid() if form == "mermaid" else topology.describe())


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(as_json: bool) -> None:
    """Look at this machine: what aiostorm and its parts need, what is missing, and how to get it.

    Exit code 1 if something is wrong. What only a part needs (Spark, say) may be missing.
    """
    from .doctor import examine
    from .report import table

    findings = examine()
    problem = any(finding.is_problem for finding in findings)
    if as_json:
        import dataclasses
        import json

        found = [{**dataclasses.asdict(finding), "problem": finding.is_problem} for finding in findings]
        click.echo(json.dumps({"ok": not problem, "findings": found}, indent=2))
    else:
        click.echo(table([(f.name, f.verdict, f.found) for f in findings], ("what", "", "found")))
        for finding in findings:
            if finding.advice:
                click.echo(f"\n{finding.name}: {finding.advice}")
    sys.exit(1 if problem else 0)


@cli.group()
def config() -> None:
    """Settings: which there are, which hold, and where they come from."""


@config.command()
@click.argument("target", required=False)
@click.argument("args", nargs=-1)
@_config_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@debug_option
def show(
    target: str | None, args: tuple[str, ...], file: Path | None, settings: tuple[str, ...], as_json: bool, debug: bool
) -> None:
    """Show every setting, its value, and where the value comes from.

    From the lowest: defaults, the topology's own (with a TARGET), --config, the environment (AIOSTORM_…), -c.
    """
    with errors(debug=debug):
        import json

        from .report import plain, table

        base = _load(target, args)[1].config if target is not None else None
        found = _settings(file, settings, base)
        values = {**found.model_dump(), **found.user}
        if as_json:
            sources = {name: {"value": value, "source": found.source_of(name)} for name, value in values.items()}
            click.echo(json.dumps(plain({"settings": sources, "ignored": found.ignored}), indent=2))
            return
        rows = [(name, _yaml(value), found.source_of(name)) for name, value in values.items()]
        click.echo(table(rows, ("setting", "value", "source")))


@config.command()
def schema() -> None:
    """Print the JSON Schema of the settings."""
    import json

    from ..topology import Config

    click.echo(json.dumps(Config.model_json_schema(), indent=2))


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@debug_option
def check(file: Path, debug: bool) -> None:
    """Check a YAML file: exit code 0 if it can be used, 2 with every mistake if not."""
    with errors(debug=debug):
        from ..topology import Config

        found = Config.from_yaml(file)
        _print_ignored(found)
        number = len(found.model_fields_set) + len(found.user)
        click.echo(f"{file}: {number} setting{'' if number == 1 else 's'}, no mistakes")


def _check_spark(master: str, slots: int | None, more: Any, workers: int) -> None:
    if not master and (slots or more):
        raise CommandError("--slots, --py-files and --ship are for --spark MASTER: give it as well")
    if master and workers:
        raise CommandError("--spark places all workers on executors: leave out --workers and --remote-workers")


# -- shared ------------------------------------------------------------------------------------------------------------


def _load(target: str, args: tuple[str, ...]) -> tuple[str, Topology]:
    """A name for it, and the topology."""
    from ..cluster import load_topology

    found, topology = load_topology(target, args)
    return found.default_name, topology


def _settings(file: Path | None, settings: tuple[str, ...], base: Config | None) -> Config:
    from ..topology import Config

    found = Config.load(file, overrides=settings, base=base)
    _print_ignored(found)
    return found


def _print_ignored(found: Config) -> None:
    if found.ignored:
        click.echo(f"Ignored, since they mean nothing here: {', '.join(found.ignored)}", err=True)


def _yaml(value: Any) -> str:
    """A value as it may stand in a YAML file."""
    import json

    from .report import plain

    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def _log_to(handler: logging.Handler, level: str) -> None:
    """All logging of the process goes there. Before the target is imported: its own `basicConfig` does nothing then."""
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "aiostorm_cli", False)]:
        root.removeHandler(old)
    setattr(handler, "aiostorm_cli", True)  # noqa: B010 - ours, to be found again
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of each connection that is closed


def main() -> None:
    """The entry point."""
    cli(prog_name="aiostorm")
