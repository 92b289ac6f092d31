"""`aiostorm config`: show, describe and check settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .errors import errors
from .importing import import_target, print_ignored, settings_of
from .options import config_options, debug_option, json_option


@click.group()
def config() -> None:
    """Show, describe and check settings."""


@config.command()
@click.argument("target", required=False)
@click.argument("args", nargs=-1)
@config_options
@json_option
@debug_option
def show(
    target: str | None, args: tuple[str, ...], file: Path | None, settings: tuple[str, ...], as_json: bool, debug: bool
) -> None:
    """Show every setting with its value and its source.

    Lowest first: defaults, the topology's own settings (with a TARGET), --config, the environment (AIOSTORM_…), -c.
    """
    with errors(debug=debug):
        import json

        from .document import plain
        from .report import table

        base = import_target(target, args)[1].config if target is not None else None
        found = settings_of(file, settings, base)
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
    """Check a YAML file: exit code 0 if it is valid, 2 with every mistake if not."""
    with errors(debug=debug):
        from ..topology import Config

        found = Config.from_yaml(file)
        print_ignored(found)
        number = len(found.model_fields_set) + len(found.user)
        click.echo(f"{file}: {number} setting{'' if number == 1 else 's'}, no mistakes")


def _yaml(value: Any) -> str:
    """A value as it may be written in a YAML file."""
    import json

    from .document import plain

    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
