"""The programs of `aiostorm update` and `aiostorm pressure`, for an `aiostorm run` on this machine.

1. They find its control socket (cluster/control/folder), and send their request there (cluster/control/socket).
2. Changes are checked here, over the current settings of the topology: so a mistake is reported as it was typed, and a
   file may repeat current settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..cluster import (
    ControlError,
    StatusRequest,
    StatusResponse,
    TopologySocket,
    TraceRequest,
    UpdateRequest,
    UpdateResponse,
    ask,
    find,
)
from ..topology import Config
from ..transport import Security, open_network
from .document import plain
from .pressure import as_document, as_text

WATCH_S = 1.0


def run_update(name: str, settings: tuple[str, ...], file: Path | None, *, as_json: bool) -> None:
    """Change settings, and print the changes. ControlError, ConfigError."""
    status, updated = asyncio.run(_update(find(name), settings, file))
    pairs = {_key(field): plain(pair) for field, pair in updated.changed.items()}
    if as_json:
        changed = {key: {"before": before, "after": after} for key, (before, after) in pairs.items()}
        click.echo(json.dumps({"topology": status.topology, "pid": status.pid, "changed": changed}, indent=2))
        return
    for key, (before, after) in pairs.items():
        click.echo(f"{key}: {json.dumps(before)} → {json.dumps(after)}")
    if not pairs:
        click.echo("no changes: all settings already have these values")


def run_pressure(name: str, *, as_json: bool, watch: bool) -> None:
    """Print the backpressure, once or until the topology ends. ControlError."""
    found = find(name)
    if watch:
        asyncio.run(_watch(found, as_json=as_json))
        return
    status = asyncio.run(query(found, StatusRequest()))
    click.echo(json.dumps(as_document(status), indent=2) if as_json else as_text(status))


async def _update(
    found: TopologySocket, settings: tuple[str, ...], file: Path | None
) -> tuple[StatusResponse, UpdateResponse]:
    status = await query(found, StatusRequest())
    holds = Config(**status.config)
    wanted = Config.load(file, {}, settings, holds)
    if wanted.ignored:
        click.echo(f"Ignored, because they have no effect here: {', '.join(wanted.ignored)}", err=True)
    fields = {key: getattr(wanted, key) for key in Config.model_fields}
    changes = {key: value for key, value in fields.items() if value != getattr(holds, key)} | dict(wanted.user)
    return status, (await query(found, UpdateRequest(changes)) if changes else UpdateResponse())


async def query(found: TopologySocket, question: StatusRequest | UpdateRequest | TraceRequest) -> Any:
    """The answer to one request, over a network of its own: no connection stays open."""
    async with open_network("client", Security()) as network:
        return await ask(network, found, question)


async def _watch(found: TopologySocket, *, as_json: bool) -> None:
    with contextlib.ExitStack() as stack:
        show = click.echo if as_json else _screen(stack)
        status = await query(found, StatusRequest())
        while True:
            show(json.dumps(as_document(status)) if as_json else as_text(status))
            await asyncio.sleep(WATCH_S)
            try:
                status = await query(found, StatusRequest())
            except ControlError as error:
                click.echo(f"{error}", err=True)
                return


def _screen(stack: contextlib.ExitStack) -> Callable[[str], None]:
    """On a terminal with rich, each text replaces the one before; else they are separated by an empty line."""
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            from rich.live import Live
            from rich.text import Text

            live = stack.enter_context(Live(auto_refresh=False))
            return lambda text: live.update(Text(text), refresh=True)
    return lambda text: click.echo(f"{text}\n")


def _key(name: str) -> str:
    """The key of a setting in YAML."""
    extra = Config.model_fields[name].json_schema_extra
    keys = extra["keys"] if isinstance(extra, dict) else None
    return str(keys[0]) if isinstance(keys, list) and keys else name
