"""`aiostorm certs`: makes a cluster's CA and token, and a certificate for each node.

    DIR/ca.pem  ca-key.pem  credentials                     made once, kept where nodes are added
    DIR/nodes/NAME/certificate.pem  key.pem  ca.pem  credentials      copied to the node as a whole
    DIR/clients/NAME/certificate.pem  key.pem  ca.pem       for who asks nimbus: without the cluster's token

1. Directories are 0700 and files 0600 from their creation on. A file is only replaced with --force, and then
   atomically: the new file takes the old one's place.
2. A client gets no token of the cluster: with that it could take part as a node.
3. The commands print what to copy where, and what to type next. They print no secret.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import CommandError, errors
from .options import client_options, debug_option, json_option, take_cluster_options

if TYPE_CHECKING:
    from ..transport import Secret

CLIENT_ROLES: Final = ("viewer", "operator", "submitter", "admin")

CLIENT_DAYS: Final = 90
"""How long a client's certificate is valid: people come and go."""

_CA_CERTIFICATE, _CA_KEY, _CREDENTIALS = "ca.pem", "ca-key.pem", "credentials"
_CERTIFICATE, _KEY = "certificate.pem", "key.pem"

_ROLES = {
    "parent": ("parent",),
    "worker": ("worker", "node", "ingress", "egress"),
    "client": ("spark",),
}
"""The roles of a node in the handshake, as its certificate names them."""

_NODE_ROLES = ("parent", "worker")
"""Those of a node that runs a supervisor."""

NODE_DAYS = 365
"""How long a node's certificate is valid."""

_days = click.IntRange(1, 36500)
_directory = click.Path(file_okay=False, path_type=Path)
_force = click.option("--force", is_flag=True, help="Replace existing files.")


@click.group()
def certs() -> None:
    """Make the certificates and the token with which the nodes of a cluster authenticate each other.

    \b
    A cluster of two nodes, once, on a machine that you trust:
      aiostorm certs init certs --cluster prod --node 10.0.0.1 --node 10.0.0.2
      scp -rp certs/nodes/10.0.0.1 10.0.0.1:
    One more node, with every host name and address at which other nodes reach it:
      aiostorm certs node certs node-c --host c.example --host 10.0.0.3 --role parent --role worker
    A person who may order from another machine, and how that ends:
      aiostorm certs client certs ann --role operator
      aiostorm certs revoke certs/clients/ann
    """


@certs.command(epilog="Example: aiostorm certs init certs --cluster prod --node 10.0.0.1 --node 10.0.0.2")
@click.argument("directory", type=_directory, metavar="DIR")
@click.option("--cluster", required=True, help="Name of the cluster: A-Z a-z 0-9 _ -")
@click.option("--days", type=_days, default=3650, show_default=True, help="Days for which the CA is valid.")
@click.option(
    "--node",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Also make the files of a node of the cluster, which runs `aiostorm supervisor --host HOST`. Repeatable.",
)
@_force
def init(directory: Path, cluster: str, days: int, hosts: tuple[str, ...], force: bool) -> None:
    """Make the cluster's CA and token in DIR, and the files of its nodes. With --force, all nodes need new files."""
    from ..transport import Credentials

    def make() -> None:
        from ..transport import new_authority

        credentials = Credentials.new(cluster)
        authority = new_authority(cluster, time.time(), days)
        _private_directory(directory)
        _write(
            {
                directory / _CA_KEY: authority.key.reveal(),
                directory / _CA_CERTIFICATE: authority.certificate,
                directory / _CREDENTIALS: credentials.to_bytes(),
            },
            force=force,
        )
        click.echo(
            f"{directory} has the CA of {cluster} (valid until {authority.expires:%Y-%m-%d}) and the cluster's token.\n"
            f"Keep it on this machine: anyone with {directory / _CA_KEY} can make nodes."
        )
        if not hosts:
            click.echo(
                "\nNow, for each node, with every host name and address at which other nodes reach it:\n"
                f"  aiostorm certs node {directory} NODE --host HOST"
            )
        for host in dict.fromkeys(hosts):
            place = _make_node(directory, _name_of(host), (host,), min(days, NODE_DAYS), _NODE_ROLES, force=force)
            click.echo(
                f"\nThe node {host}: copy its folder, and start it there:\n"
                f"  scp -rp {place} {_bracketed(host)}:\n"
                f"  aiostorm supervisor --host {host} --credentials {place.name} --store zk://…"
            )

    _run(make)


@certs.command(epilog="Example: aiostorm certs node certs node-a --host a.example --role parent --role worker")
@click.argument("directory", type=_directory, metavar="DIR")
@click.argument("name")
@click.option("--host", "hosts", multiple=True, required=True, help="Host name or IP address of the node. Repeatable.")
@click.option(
    "--days", type=_days, default=NODE_DAYS, show_default=True, help="Days for which the certificate is valid."
)
@_force
@click.option(
    "--role",
    "roles",
    type=click.Choice(list(_ROLES)),
    multiple=True,
    default=("worker",),
    show_default=True,
    help="Role of the node: parent (`aiostorm run`), worker, client (Spark's executors). A node of a cluster with "
    "supervisors needs parent and worker. Repeatable.",
)
def node(directory: Path, name: str, hosts: tuple[str, ...], days: int, force: bool, roles: tuple[str, ...]) -> None:
    """Make the files of one node in DIR/nodes/NAME; copy this folder to the node.

    The certificate contains the roles: other nodes accept it in no other role. It is also valid for localhost,
    127.0.0.1 and ::1, so that processes of one machine can connect to each other.
    """

    def make() -> None:
        place = _make_node(directory, name, hosts, days, roles, force=force)
        click.echo(
            "\nCopy the folder to the node, with its file modes:\n"
            f"  scp -rp {place} {_bracketed(hosts[0])}:\n"
            "and start it there:"
        )
        if "parent" in roles and "worker" in roles:
            click.echo(f"  aiostorm supervisor --host {hosts[0]} --credentials {name} --store zk://…")
        else:
            click.echo(f"  aiostorm worker --credentials {name} --listen {_bracketed(hosts[0])}:6700 …")

    _run(make)


@certs.command(epilog="Example: aiostorm certs client certs ann --role operator --days 30")
@click.argument("directory", type=_directory, metavar="DIR")
@click.argument("name")
@click.option("--role", type=click.Choice(CLIENT_ROLES), required=True, help="What its holder may do at nimbus.")
@click.option(
    "--days", type=_days, default=CLIENT_DAYS, show_default=True, help="Days for which the certificate is valid."
)
@_force
def client(directory: Path, name: str, role: str, days: int, force: bool) -> None:
    """Make the files of a client in DIR/clients/NAME: a person or a program that asks nimbus, without a token.

    The certificate says who it is and which role it has. Nimbus accepts it at --listen with --certificates. It cannot
    be used as that of a node. `aiostorm certs revoke` ends it before its time.

    \b
      aiostorm list --nimbus aiostorm://storm.example:6700 --certificate ann
    """
    _run(lambda: _make_client(directory, name, role, days, force=force))


@certs.command(
    epilog="Exit codes: 0 revoked, 2 it is no certificate, 69 there is no cluster, or no nimbus answers, 77 it is "
    "refused."
)
@click.argument("which", metavar="CERTIFICATE")
@client_options
@debug_option
def revoke(which: str, debug: bool, **options: Any) -> None:
    """Revoke the certificate of a client: from its next request on no nimbus of the cluster accepts it.

    CERTIFICATE is its file, the folder of the client, or its SHA-256 in hexadecimal. With a file it is known until when
    it is valid: after that it leaves the list of revoked ones, which has at most 10,000. With --nimbus, that needs the
    role admin. It is for clients only: to exclude a node, make a new CA and token.
    """
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        sha256, ends_s = _fingerprint_of(which)
        program.run(place, lambda opened: program.revoke_certificate(opened, sha256, ends_s))
    click.echo(f"the certificate {sha256} is revoked")


@certs.command(
    epilog="Exit codes: 0 listed, 2 cannot be done, 69 there is no cluster, or no nimbus answers, 77 it is refused."
)
@json_option
@client_options
@debug_option
def revoked(as_json: bool, debug: bool, **options: Any) -> None:
    """List the certificates of clients that were revoked. With --nimbus, that needs the role admin."""
    place = take_cluster_options(options)
    with errors(debug=debug):
        from . import cluster as program

        code = program.run(place, lambda opened: program.list_revoked(opened, as_json=as_json))
    sys.exit(code)


def _fingerprint_of(which: str) -> tuple[str, float]:
    """Of a file, a folder of a client, or as it is given; and its end (Unix time; 0: not known). CommandError.

    CredentialsError for a file that has none.
    """
    from ..cluster.access import checked_fingerprint
    from ..transport import fingerprint_in

    path = Path(which)
    if path.exists():
        path = path / _CERTIFICATE if path.is_dir() else path
        return fingerprint_in(path), _end_of(path)
    try:
        return checked_fingerprint(which), 0.0
    except ValueError as error:
        raise CommandError(f"there is no file {which[:200]!r}, and {error}") from error


def _end_of(path: Path) -> float:
    """When the certificate in this file ends, Unix time; 0: not known, without the package `cryptography`."""
    try:
        from ..transport import end_of_certificate
    except ModuleNotFoundError:
        return 0.0
    return end_of_certificate(path.read_bytes())


def _make_client(directory: Path, name: str, role: str, days: int, *, force: bool) -> None:
    from ..transport import fingerprint_in, new_client_certificate

    ca, ca_key = _authority(directory)
    issued = new_client_certificate(ca, ca_key, name, role, time.time(), days)
    place = directory / "clients" / name
    for each in (directory, place.parent, place):
        _private_directory(each)
    made = {_KEY: issued.key.reveal(), _CERTIFICATE: issued.certificate, _CA_CERTIFICATE: ca}
    _write({place / file: data for file, data in made.items()}, force=force)
    click.echo(
        f"{place} has the files of {name} ({role}, valid until {issued.expires:%Y-%m-%d}). The certificate's SHA-256:\n"
        f"  {fingerprint_in(place / _CERTIFICATE)}\n"
        "Hand the folder over, with its file modes, and keep no copy of key.pem:\n"
        f"  aiostorm list --nimbus aiostorm://HOST:PORT --certificate {name}"
    )


def _make_node(
    directory: Path, name: str, hosts: tuple[str, ...], days: int, roles: tuple[str, ...], *, force: bool
) -> Path:
    """Make the files of a node. Returns their folder."""
    from ..transport import Credentials, new_certificate

    ca, ca_key = _authority(directory)
    credentials = Credentials.from_file(directory / _CREDENTIALS)
    issued = new_certificate(ca, ca_key, name, hosts, time.time(), days, _certificate_roles(roles))
    place = directory / "nodes" / name
    for each in (directory, place.parent, place):
        _private_directory(each)
    _write(
        {
            place / _KEY: issued.key.reveal(),
            place / _CERTIFICATE: issued.certificate,
            place / _CA_CERTIFICATE: ca,
            place / _CREDENTIALS: credentials.to_bytes(),
        },
        force=force,
    )
    click.echo(
        f"{place} has the files of {name}: its certificate (valid until {issued.expires:%Y-%m-%d}), its key, the "
        "CA's certificate, the cluster's token."
    )
    return place


def _authority(directory: Path) -> tuple[bytes, Secret]:
    """The certificate and the key of the CA in this folder. CommandError if there is none."""
    from ..transport import Secret, read_private

    missing = [file for file in (_CA_CERTIFICATE, _CA_KEY) if not (directory / file).exists()]
    if missing:
        raise CommandError(
            f"{directory} has no CA ({' and '.join(missing)} missing): name the folder that `aiostorm certs init` has "
            f"made. If the cluster has none yet, make it on a machine that you trust: aiostorm certs init {directory} "
            "--cluster NAME"
        )
    return (directory / _CA_CERTIFICATE).read_bytes(), Secret(read_private(directory / _CA_KEY, 64 * 1024))


def _name_of(host: str) -> str:
    """The name of the node with this address."""
    return host.strip("[]").replace(":", "-").lstrip("-") or "node"


def _certificate_roles(roles: tuple[str, ...]) -> list[str]:
    """The roles as they are written in the certificate."""
    return list(dict.fromkeys(word for role in roles for word in _ROLES[role]))


def _run(make: Callable[[], None]) -> None:
    from ..transport import CredentialsError

    try:
        make()
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error.name} is not installed here: pip install 'aiostorm[tls]'") from error
    except CredentialsError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error


def _private_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if os.name != "nt" and path.stat().st_mode & 0o077:
            raise click.ClickException(
                f"other users can read {path}, which will contain secrets: chmod 700 {path}"
            ) from None


def _write(files: dict[Path, bytes], *, force: bool) -> None:
    from ..runtime import write_file

    there = [str(path) for path in files if path.exists()]
    if there and not force:
        raise click.ClickException(f"already exists: {', '.join(there)}. Use --force to replace the files")
    for path, data in files.items():
        write_file(path, data)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
