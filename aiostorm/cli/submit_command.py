"""`aiostorm submit`: hand a topology over to a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .errors import errors
from .options import (
    client_options,
    config_options,
    debug_option,
    guarantee_options,
    json_option,
    parallelism_option,
    pin_option,
    take_cluster_options,
    take_guarantee_settings,
)
from .quantities import size


@click.command(
    epilog="Exit codes: 0 it runs (or is submitted, with --wait 0), 1 it has failed or does not run in time, 2 cannot "
    "be submitted, 69 no cluster here, or no nimbus leads: then it is kept, and runs later."
)
@click.argument("target")
@click.argument("args", nargs=-1)
@click.option("--name", default="", help="Name of the topology. Default: its own name, or the module's.")
@click.option(
    "--workers", type=click.IntRange(1), metavar="K", help="Worker processes. Default: topology.workers, or 2."
)
@click.option(
    "--replace",
    metavar="NAME",
    default="",
    help="Give this code to the topology of that name, which goes on with it, or with the code before if it fails.",
)
@parallelism_option
@click.option(
    "--code",
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR|ZIP|WHEEL",
    help="The modules of the topology. Default: they are installed on the nodes.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="PATH",
    help="A file that comes along, at the top of the code, beside its modules. Repeatable.",
)
@config_options
@guarantee_options
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Nodes must have this label. Repeatable.")
@pin_option
@click.option(
    "--isolate-machines",
    type=click.IntRange(0),
    metavar="N",
    help="Run it on N nodes of its own, where no other topology is (topology.isolate.machines). Default: on any.",
)
@click.option("--fewer", is_flag=True, help="Start with fewer workers if too few slots are free.")
@click.option(
    "--worker-memory",
    "worker_memory_bytes",
    type=size,
    default="0",
    metavar="SIZE",
    help="What each worker may take, as 512MiB: nodes must have it, and a worker that takes more is killed.",
)
@click.option(
    "--worker-cores",
    type=click.FloatRange(0),
    default=0.0,
    metavar="N",
    help="Cores that nodes must have for each worker. How many it uses is not limited.",
)
@click.option("--inactive", is_flag=True, help="Start with paused spouts: `aiostorm activate` lets them emit.")
@click.option("--no-check", is_flag=True, help="Do not import the target here. Needs --name.")
@click.option(
    "--check-timeout",
    "check_timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the import of the target may take.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the cluster, and until it runs; 0: do not wait.",
)
@json_option
@client_options
@debug_option
def submit(
    target: str,
    args: tuple[str, ...],
    file: Path | None,
    settings: tuple[str, ...],
    no_check: bool,
    inactive: bool,
    as_json: bool,
    debug: bool,
    **options: Any,
) -> None:
    """Hand a topology over to a cluster, which runs it until it is killed.

    TARGET is MODULE:ATTRIBUTE: a topology, or a function that makes one; ARGS are the arguments of that function. Its
    modules are those of --code (a folder is packed: no caches, environments and hidden files), or are installed on the
    nodes. Before it is submitted, the target is imported and checked in a process of its own, which finds only these.

    With --replace NAME, a topology that runs gets this code: it is drained (with exactly once a snapshot is taken), and
    goes on in new processes. Settings, workers, tasks, labels and pins that are not given are as before.

    The topology outlives this command, and every process of the cluster. `aiostorm show`, `logs`, `top` and `ui` look
    at it, `aiostorm kill` ends it.

    \b
      aiostorm submit --code src --workers 4 jobs.orders:topology
      aiostorm submit --replace orders --code src jobs.orders:topology
      aiostorm submit --pin detect=gpu --code src jobs.images:topology
      aiostorm submit --name sums --guarantee exactly-once --state s3://bucket/sums jobs.sums:make 10
    """
    place, of_guarantee = take_cluster_options(options), take_guarantee_settings(options)
    with errors(debug=debug):
        from ..cluster.nimbus import ISOLATE_KEY
        from . import cluster as program
        from .errors import CommandError
        from .importing import settings_of

        if options["replace"] and (options["name"] or inactive):
            raise CommandError("--replace NAME names the topology, which stays active or inactive as it is")

        machines = options.pop("isolate_machines")
        isolated = () if machines is None else (f"{ISOLATE_KEY}={machines}",)
        config = settings_of(file, (*settings, *of_guarantee, *isolated), None)
        given = program.Submission(target, args, config=config, active=not inactive, check=not no_check, **options)
        within_s = min(given.wait_s, program.CLUSTER_S)
        code = program.run(place, lambda opened: program.submit(opened, given, as_json=as_json), within_s=within_s)
    sys.exit(code)
