"""The options of the page: `--ui` with an address and without one, and what is refused."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from aiostorm.cli.app import cli
from aiostorm.cli.errors import ExposedCommandError, errors
from aiostorm.cli.page import PageCommand, PageOptions, page_options, take_page_options
from aiostorm.ui import Dashboard

NO_SECURITY: dict[str, Any] = {
    "token_file": None,
    "tls_cert": None,
    "tls_key": None,
    "tls_ca": None,
    "insecure": False,
    "directory": None,
}


@click.command(cls=PageCommand)
@click.argument("target")
@click.argument("args", nargs=-1)
@page_options
def probe(target: str, args: tuple[str, ...], **options: Any) -> None:
    """Show what was given."""
    click.echo(repr((target, args, take_page_options(options).address)))


def given(*arguments: str) -> Any:
    done = CliRunner().invoke(probe, arguments)
    return done.output if done.exit_code else ast.literal_eval(done.output)


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["pkg:topology"], ""),
        (["--ui", "pkg:topology"], "127.0.0.1:8080"),
        (["pkg:topology", "--ui"], "127.0.0.1:8080"),
        (["--ui", "9000", "pkg:topology"], "127.0.0.1:9000"),
        (["--ui", "localhost:9000", "pkg:topology"], "localhost:9000"),
        (["--ui", "[::1]:9000", "pkg:topology"], "[::1]:9000"),
        (["--ui=0.0.0.0:80", "pkg:topology"], "0.0.0.0:80"),
    ],
)
def test_the_address_may_be_left_out(arguments, address):
    assert given(*arguments) == ("pkg:topology", (), address)


def test_what_follows_two_dashes_is_not_an_option():
    assert given("pkg:topology", "--", "--ui", "5") == ("pkg:topology", ("--ui", "5"), "")


@pytest.mark.parametrize(
    "address", ["--ui=somewhere", "--ui=unix:/x", "--ui=1:2:3", "--ui 127.0.0.1:99999", "--ui 99999", "--ui 1:2:3"]
)
def test_what_is_no_address_is_refused(address):
    assert "is not HOST:PORT or a port" in given(*address.split(), "pkg:topology")


def test_without_ui_the_other_options_are_refused():
    with pytest.raises(click.ClickException, match="need --ui"):
        PageOptions("", "", (), True).dashboard(NO_SECURITY)
    assert PageOptions("", "", (), False).dashboard(NO_SECURITY) is None


def test_the_token_is_read_from_a_private_file(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("t" * 32 + "\n")
    file.chmod(0o600)
    assert isinstance(PageOptions("127.0.0.1:0", str(file), (), False).dashboard(NO_SECURITY), Dashboard)
    file.chmod(0o644)
    with pytest.raises(click.ClickException, match="chmod 600"), errors(debug=False):
        PageOptions("127.0.0.1:0", str(file), (), False).dashboard(NO_SECURITY)


@pytest.mark.parametrize(("options", "what"), [({"token": "short"}, "32 characters"), ({"hosts": ("a b",)}, "no name")])
def test_a_wrong_token_or_host_is_one_line(options, what, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(options.get("token", "t" * 32))
    file.chmod(0o600)
    with pytest.raises(click.ClickException, match=what):
        PageOptions("127.0.0.1:0", str(file), options.get("hosts", ()), False).dashboard(NO_SECURITY)


@pytest.mark.sockets
@pytest.mark.slow
def test_run_refuses_other_machines_with_78():
    done = CliRunner().invoke(cli, ["run", "-q", "--ui", "0.0.0.0:0", "aiostorm.cli.demo:topology", "1"])
    assert done.exit_code == ExposedCommandError.exit_code == 78
    assert "it needs TLS and a token" in done.output
