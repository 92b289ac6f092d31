"""`aiostorm token`: makes, lists and revokes tokens."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import CommandError, errors
from .options import client_options, cluster_options, debug_option, json_option, take_cluster_options

if TYPE_CHECKING:
    from ..cluster.access import Role, TokenFile
    from ..transport import Credentials

ROLES: Final = ("viewer", "operator", "submitter", "admin")

_UNITS: Final = {"m": 60.0, "h": 3_600.0, "d": 86_400.0}
_LASTS: Final = re.compile(r"([1-9][0-9]{0,5})([mhd])")


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of those who may order something of a cluster.

    Who can open the home folder needs none. Others ask a nimbus that listens (`aiostorm nimbus --listen`), with a
    token whose role says what they may do: viewer (look), operator (also activate, deactivate, rebalance, kill),
    submitter (also submit code), admin (also list and revoke tokens).

    \b
      aiostorm token add ann --role operator --expires 30d
      aiostorm list --nimbus aiostorm://storm.example:6700 --token-file ann.token
    """


@token.command(epilog="Exit codes: 0 made, 2 cannot be done.")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What its holder may do.")
@click.option("--expires", metavar="TIME", help="How long it is valid: 90m, 12h, 30d. Default: until it is revoked.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File (0600) for the token. Default: NAME.token. It must not exist.",
)
@cluster_options
@debug_option
def add(name: str, role: str, expires: str | None, out: Path | None, debug: bool, **options: Any) -> None:
    """Make a token, and write it to a file for its holder. The cluster keeps no copy, only what checks it.

    \b
      aiostorm token add ann --role operator --expires 30d
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from ..cluster.access import Role, TokenFile, check_token_name
        from ..transport import Credentials

        home = place.home
        home.make()
        try:
            lasts_s = _seconds(expires)
            made = Credentials.new(check_token_name(name))
            file = out or Path(f"{name}.token")
            _write_new(file, made.to_bytes())
            try:
                asyncio.run(_add(TokenFile(home.tokens), made, Role(role), lasts_s))
            except BaseException:
                file.unlink(missing_ok=True)
                raise
        except ValueError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
    click.echo(f"{file} has the token of {name} ({role}): hand it over, and keep no copy")


@token.command(name="list", epilog="Exit codes: 0 listed, 2 cannot be done, 69 no nimbus answers, 77 it is refused.")
@json_option
@client_options
@debug_option
def list_tokens(as_json: bool, debug: bool, **options: Any) -> None:
    """List the tokens: names, roles, and until when they are valid. With --nimbus, that needs the role admin."""
    place = take_cluster_options(options)
    with errors(debug=debug):
        if place.asks_nimbus:
            from . import cluster as program

            program.run(place, lambda opened: program.list_tokens(opened, as_json=as_json))
        else:
            from ..cluster.access import TokenFile
            from .cluster_view import tokens_text

            click.echo(tokens_text(TokenFile(place.home.tokens).read().listed(), as_json=as_json))
    sys.exit(0)


@token.command(epilog="Exit codes: 0 revoked, 2 there is none, 69 no nimbus answers, 77 it is refused.")
@click.argument("name")
@client_options
@debug_option
def revoke(name: str, debug: bool, **options: Any) -> None:
    """Revoke a token: within two seconds no nimbus of this home accepts it, on open connections, too.

    With --nimbus, that needs the role admin.
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        if place.asks_nimbus:
            from . import cluster as program

            program.run(place, lambda opened: program.revoke_token(opened, name))
        else:
            from ..cluster.access import TokenFile

            try:
                TokenFile(place.home.tokens).revoke(name)
            except ValueError as error:
                raise CommandError(str(error)) from error
            except OSError as error:
                raise CommandError(f"{error.filename}: {error.strerror}") from error
    click.echo(f"the token {name} is revoked")


async def _add(tokens: TokenFile, made: Credentials, role: Role, lasts_s: float | None) -> None:
    tokens.add(made, role, lasts_s)


def _seconds(expires: str | None) -> float | None:
    if expires is None:
        return None
    found = _LASTS.fullmatch(expires)
    if found is None:
        raise CommandError(f"--expires is a number of minutes, hours or days: 90m, 12h, 30d; not {expires!r:.40}")
    return int(found[1]) * _UNITS[found[2]]


def _write_new(path: Path, data: bytes) -> None:
    from ..runtime import NewFile

    with NewFile(f"{path}.new") as new:
        new.write(data)
        if not new.link(path):
            raise CommandError(f"{path} is there already: choose another file with --out")
