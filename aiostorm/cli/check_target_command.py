"""`aiostorm check-target`: what `aiostorm submit` runs to check a target, so that it imports no code of the user."""

from __future__ import annotations

import click

from .errors import errors
from .options import kept_option, parallelism_option


@click.command("check-target", hidden=True)
@click.argument("target")
@click.argument("args", nargs=-1)
@click.option("--path", "paths", multiple=True, metavar="DIR", help="Additional folder with modules. Repeatable.")
@click.option("--folder", metavar="DIR", help="Folder to work in: modules of the current one are not found.")
@click.option("--settings-from-stdin", "from_stdin", is_flag=True, help="Read settings, a JSON object.")
@parallelism_option
@kept_option
def check_target(
    target: str,
    args: tuple[str, ...],
    paths: tuple[str, ...],
    folder: str | None,
    from_stdin: bool,
    parallelism: dict[str, int],
    kept: dict[str, int],
) -> None:
    """Import a target, check its topology, and print one JSON document."""
    from ..runtime.processes import die_with_parent

    die_with_parent()
    with errors(debug=False):
        from .check_target import Tasks, look_in, read_settings, run_check
        from .start import take_credentials

        take_credentials()
        settings = read_settings() if from_stdin else {}
        look_in(paths, folder)
        run_check(target, args, settings, paths, Tasks(parallelism, kept))
