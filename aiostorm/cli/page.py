"""Page: the options of commands that show a topology in a browser, and the server for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from .errors import CommandError

if TYPE_CHECKING:
    from ..cluster.access import TokenFile
    from ..transport import Secret
    from ..ui import Dashboard

DEFAULT: Final = "127.0.0.1:8080"

MAX_TOKEN_BYTES: Final = 4096


class PageCommand(click.Command):
    """A command with --ui, whose address may be left out: what follows is its value only if it is an address."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give --ui its address, before click takes the next argument for it."""
        end = args.index("--") if "--" in args else len(args)
        given: list[str] = []
        rest = iter(enumerate(args))
        for i, one in rest:
            if one != "--ui" or i > end:
                given.append(one)
            elif i + 1 < end and _ends_with_port(args[i + 1]):
                given.append(f"--ui={next(rest)[1]}")
            else:
                given.append(f"--ui={DEFAULT}")
        return super().parse_args(ctx, given)


class PageOptions(NamedTuple):
    """What the options of `page_options` say. `address`: empty without --ui."""

    address: str
    token_file: str
    hosts: tuple[str, ...]
    read_only: bool

    def dashboard(self, security: dict[str, Any]) -> Dashboard | None:
        """The server; None without --ui. CommandError, ExposedError, CredentialsError for what cannot be served."""
        if not self.address:
            if self.token_file or self.hosts or self.read_only:
                raise CommandError("--ui-token-file, --ui-host and --ui-read-only need --ui")
            return None
        from ..ui import Dashboard
        from .worker import security_of

        try:
            return Dashboard(
                self.address,
                tls=security_of(**security).tls,
                token=self._token(),
                hosts=self.hosts,
                read_only=self.read_only,
            )
        except ValueError as error:
            raise CommandError(f"--ui: {error}") from error

    def _token(self) -> Secret | TokenFile | None:
        """One token, or the file with those of a cluster."""
        from ..transport import Secret, read_private

        if not self.token_file:
            return None
        found = read_private(self.token_file, MAX_TOKEN_BYTES).strip()
        if not found.startswith(b"{"):
            return Secret(found)
        from ..cluster.access import TokenFile

        tokens = TokenFile(Path(self.token_file))
        tokens.read()
        return tokens


def page_options(command: Any) -> Any:
    """The options of the page; `take_page_options` reads them."""
    options = (
        click.option(
            "--ui",
            "ui",
            default="",
            callback=_address,
            metavar="[HOST:PORT]",
            help=f"Show the topology in a browser. Default address: {DEFAULT}; port 0 is any free one.",
        ),
        click.option(
            "--ui-token-file",
            type=click.Path(path_type=str, dir_okay=False),
            help="File (0600) with the page's token, 32 characters or more, or with the tokens of `aiostorm token` (in "
            "the cluster's folder). Needed if other machines can reach it.",
        ),
        click.option(
            "--ui-host",
            "ui_hosts",
            metavar="HOST[:PORT]",
            multiple=True,
            help="Further name under which browsers know the page, as https://storm.example. Repeatable.",
        ),
        click.option("--ui-read-only", is_flag=True, help="Change nothing from the page."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def take_page_options(options: dict[str, Any]) -> PageOptions:
    """Remove the options of `page_options` from all options."""
    names = ("ui", "ui_token_file", "ui_hosts", "ui_read_only")
    address, token_file, hosts, read_only = (options.pop(name) for name in names)
    return PageOptions(address, token_file or "", tuple(hosts), read_only)


def _address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and not _is_address(value):
        raise click.BadParameter(f"{value!r} is not HOST:PORT or a port", context, parameter)
    return f"127.0.0.1:{value}" if value.isdecimal() else value


def _ends_with_port(text: str) -> bool:
    """Is it meant as an address? A wrong one is refused, and not taken for an argument of the topology."""
    port = text.rpartition(":")[2]
    return port.isascii() and port.isdecimal() and not text.startswith("unix:")


def _is_address(text: str) -> bool:
    from ..transport import NetworkError, parse_address

    if text.isascii() and text.isdecimal():
        return len(text) <= 5 and int(text) < 65536
    try:
        parse_address(text)
    except NetworkError:
        return False
    return not text.startswith("unix:")
