"""The program of `aiostorm worker`: a process that runs a part of a topology for a parent.

1. First it makes sure that it dies with its parent, if a parent has started it.
2. It reads its credentials from its standard input (a child), a file or the environment: never from an argument.
3. Output and logs go to the standard output and error line by line; log lines are marked for the parent.
4. SIGTERM asks the parent to remove this worker; SIGINT is handled by the parent (a child has its own session).
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from ..cluster import (
    PARENT,
    TERMINATED,
    WORKER,
    Heartbeat,
    MarkedFormatter,
    MarkedStream,
    NetworkHeartbeatSender,
    PipeHeartbeatSender,
    ProcessBackend,
    TargetError,
    WorkerOptions,
    read_address,
    work,
    write_profile,
)
from ..runtime import LIVENESS, loop_factory
from ..transport import Credentials, Security, TlsFiles, open_network
from .logs import formatter
from .run import WorkerPlan
from .start import taken_credentials

if TYPE_CHECKING:
    from .logs import LogFormat
    from .signals import Interrupts

MAX_STDIN_BYTES = 1024


def security_of(
    *,
    token_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    insecure: bool,
    directory: str | None = None,
    from_stdin: bool = False,
) -> Security:
    """Credentials and TLS from a command's options. CredentialsError if invalid; TargetError if some are missing."""
    if directory is not None:
        if any((token_file, tls_cert, tls_key, tls_ca)):
            raise TargetError("--credentials replaces --token-file and --tls-…: use one or the others")
        found = Security.from_directory(directory)
        return Security(found.credentials, found.tls, insecure)
    credentials: Credentials | None
    if from_stdin:
        credentials = Credentials.from_bytes(sys.stdin.buffer.read(MAX_STDIN_BYTES + 1), "the standard input")
    elif token_file is not None:
        credentials = Credentials.from_file(token_file)
    else:
        credentials = Credentials.from_environment(taken_credentials())
    if tls_cert is None and tls_key is None and tls_ca is None:
        return Security(credentials, None, insecure)
    if tls_cert is None or tls_key is None or tls_ca is None:
        raise TargetError("--tls-cert, --tls-key and --tls-ca must be used together")
    return Security(credentials, TlsFiles(tls_cert, tls_key, tls_ca), insecure)


def run_worker(options: WorkerOptions, security: Security, interrupts: Interrupts, loop: str, *, child: bool) -> int:
    """Run a worker to its end; returns the exit code."""
    security.check_listening(options.listen)  # at once, not only after the parent was found
    interrupts.first_message = lambda: f"{options.name}: asked to end; its parent continues without it"
    interrupts.last_message = lambda: f"{options.name}: ends now"
    if child:
        interrupts.on_first = logging.getLogger("aiostorm.worker").info
    with interrupts, asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        return runner.run(_run(options, security, interrupts, child=child))


async def _run(options: WorkerOptions, security: Security, interrupts: Interrupts, *, child: bool) -> int:
    leave = interrupts.listen()
    here = NetworkHeartbeatSender(options.name, options.pid, lambda: options.parent_address, security)
    heartbeat = Heartbeat(PipeHeartbeatSender() if child else here)
    profiled = write_profile if child else heartbeat.profiled
    heartbeat.start()
    try:
        async with open_network(options.name, security, role=WORKER, roles=(PARENT, WORKER)) as network:
            code = await work(replace(options, profiled=profiled), network, leave)
            interrupts.end_within(
                LIVENESS.worker_leave_timeout_s,
                code or TERMINATED,
                f"{options.name}: user code is still running: it is abandoned",
            )
            return code
    finally:
        heartbeat.stop()


def options_of(
    name: str,
    parent: str,
    listen: str,
    targets: Sequence[str],
    *,
    child: bool,
    any_code: bool = False,
    outlive_s: float | None = None,
    parent_file: Path | None = None,
    generation: int = 0,
) -> WorkerOptions:
    """The options of a worker in this process. `child`: it dies with its parent.

    `parent_file`: has the address of the parent, whenever that is looked for.
    """
    find = None if parent_file is None else partial(read_address, parent_file)
    return WorkerOptions(
        name,
        parent,
        listen,
        os.getpid(),
        platform.node(),
        child,
        tuple(targets),
        any_code,
        outlive_s,
        find_parent=find,
        generation=generation,
    )


def add_module_paths(paths: Sequence[str]) -> None:
    """Look for modules there too, after this process's own paths."""
    sys.path += [path for path in paths if path not in sys.path]


def configure_logging(level: str, log_format: LogFormat, *, child: bool) -> None:
    """Send all logging to the standard error. For a parent that reads it, mark log lines and printed lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(MarkedFormatter("%(message)s") if child else formatter(log_format))
    logging.basicConfig(handlers=[handler], level=level.upper())
    if child:
        sys.stdout = cast(TextIO, MarkedStream(sys.stdout, "stdout"))
        sys.stderr = cast(TextIO, MarkedStream(sys.stderr, "stderr"))


def worker_plan(
    target: str,
    arguments: tuple[str, ...],
    workers: int,
    remote: int,
    listen: str,
    loop: str,
    log_level: str,
    **options: Any,
) -> WorkerPlan:
    """The workers of `aiostorm run`. TargetError, CredentialsError."""
    if remote and not listen:
        raise TargetError("--remote-workers needs --listen HOST:PORT: the address at which they connect")
    security = security_of(**options)
    if security.tls is not None and listen.rpartition(":")[0] in ("0.0.0.0", "[::]", ""):  # noqa: S104 - refused
        raise TargetError("--listen must be an address of this machine that other machines can use, HOST:PORT")
    backend = ProcessBackend(
        listen,
        security.credentials,
        security.tls,
        insecure=security.insecure,
        arguments=("--loop", loop, "--log-level", log_level),
    )
    return WorkerPlan(target, arguments, workers, remote, backend, partial(_print_remote, target), backend.abandon)


def _print_remote(target: str, address: str, names: Sequence[str]) -> None:
    click.echo(f"Waiting for {len(names)} workers on other machines. Start each with its own certificate:", err=True)
    for name in names:
        click.echo(
            f"  aiostorm worker --name {name} --connect {address} --listen HOST:PORT --credentials DIR "
            f"--target {shlex.quote(target)}",
            err=True,
        )
