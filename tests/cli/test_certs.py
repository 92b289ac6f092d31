"""`aiostorm certs`: private file modes, nothing replaced without --force, no secret shown; two nodes use the files."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from aiostorm.transport import Connection, Credentials, Security, open_network

from .conftest import Command


@pytest.fixture
def made(aiostorm: Command, tmp_path: Path) -> Path:
    place = tmp_path / "certs"
    assert aiostorm("certs", "init", place, "--cluster", "prod").code == 0
    return place


def test_a_cluster_and_two_nodes_that_connect(aiostorm: Command, made: Path) -> None:
    for name in ("main", "second"):
        outcome = aiostorm("certs", "node", made, name, "--host", "a.example", "--host", "10.0.0.2")
        assert outcome.code == 0, outcome.err
        assert f"scp -rp {made}/nodes/{name} a.example:" in outcome.out
        assert f"--credentials {name}" in outcome.out
    ours, theirs = (Security.from_directory(made / "nodes" / name) for name in ("main", "second"))
    assert ours.credentials == theirs.credentials

    async def speak() -> bytes:
        came: list[Connection] = []
        async with open_network("second", theirs) as listening, open_network("main", ours) as dialling:
            listener = await listening.listen("127.0.0.1:0", came.append)
            near = await dialling.connect(listener.address)
            near.send(b"hello")
            return await came[0].receive()

    with asyncio.Runner() as runner:
        assert runner.run(speak()) == b"hello"


def test_files_are_private_and_no_secret_is_shown(aiostorm: Command, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        place = tmp_path / "certs"
        said = aiostorm("certs", "init", place, "--cluster", "prod").out
        said += aiostorm("certs", "node", place, "main", "--host", "a.example").out
    finally:
        os.umask(old)
    for path in (place, *place.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        if path.is_file() and path.name != "ca.pem":
            for line in path.read_text().splitlines():
                assert line.startswith("-----") or line.partition(".")[2][:20] not in said.split()
    token = Credentials.from_file(place / "credentials").to_bytes().decode().partition(".")[2].strip()
    assert len(token) == 43
    assert token not in said


def test_nothing_is_replaced_without_force(aiostorm: Command, made: Path) -> None:
    before = {path: path.read_bytes() for path in made.iterdir() if path.is_file()}
    outcome = aiostorm("certs", "init", made, "--cluster", "prod")
    assert outcome.code == 1
    assert "--force" in outcome.err
    assert {path: path.read_bytes() for path in before} == before
    assert aiostorm("certs", "init", made, "--cluster", "prod", "--force").code == 0
    assert all(path.read_bytes() != data for path, data in before.items())
    assert not list(made.glob("*.new"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("node", "{}", "..", "--host", "a.example"), "a name is"),
        (("node", "{}", "a/b", "--host", "a.example"), "a name is"),
        (("node", "{}", "main", "--host", "*.example"), "is not a host"),
        (("node", "{}", "main", "--host", "a.example", "--days", "4000"), "the CA is valid until"),
        (("node", "{}/none", "main", "--host", "a.example"), "none has no CA"),
        (("node", "{}", "main"), "Missing option '--host'"),
        (("init", "{}", "--cluster", "a b", "--force"), "cluster's id"),
    ],
)
def test_impossible_arguments_are_reported_in_one_message(
    aiostorm: Command, made: Path, arguments: tuple[str, ...], says: str
) -> None:
    outcome = aiostorm("certs", *(word.format(made) for word in arguments))
    assert outcome.code in (1, 2)
    assert says in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", [("client", "ann", "--role", "viewer"), ("node", "n", "--host", "a.example")])
def test_without_a_ca_it_says_what_makes_one(aiostorm: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    what, *words = command
    outcome = aiostorm("certs", what, tmp_path / "none", *words)
    assert outcome.code == 2
    assert f"aiostorm certs init {tmp_path / 'none'} --cluster NAME" in outcome.err
    assert "ca.pem and ca-key.pem missing" in outcome.err
    assert not (tmp_path / "none").exists()


def test_a_directory_that_others_can_read_is_refused(aiostorm: Command, tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o755)
    outcome = aiostorm("certs", "init", place, "--cluster", "prod")
    assert outcome.code == 1
    assert f"chmod 700 {place}" in outcome.err
    assert not list(place.iterdir())


def test_a_worker_that_would_dial_another_machine_unprotected_does_not_start(aiostorm: Command) -> None:
    outcome = aiostorm("worker", "--name", "w", "--target", "jobs", "--connect", "10.0.0.2:6700")
    assert outcome.code == 78
    assert "--credentials DIR" in outcome.err


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:6700", "10.0.0.1:6700"])
def test_a_worker_that_would_be_reached_unprotected_does_not_start(aiostorm: Command, address: str) -> None:
    outcome = aiostorm("worker", "--name", "w", "--target", "jobs", "--connect", "127.0.0.1:1", "--listen", address)
    assert outcome.code == 78, "at once, without a prompt"
    assert "TLS and a token" in outcome.err


def test_one_command_makes_all_that_two_nodes_with_supervisors_need(aiostorm: Command, tmp_path: Path) -> None:
    place = tmp_path / "certs"
    outcome = aiostorm("certs", "init", place, "--cluster", "prod", "--node", "10.0.0.1", "--node", "fe80::2")
    assert outcome.code == 0, outcome.err
    assert f"scp -rp {place}/nodes/10.0.0.1 10.0.0.1:" in outcome.out
    assert "aiostorm supervisor --host 10.0.0.1 --credentials 10.0.0.1" in outcome.out
    assert f"scp -rp {place}/nodes/fe80--2 [fe80::2]:" in outcome.out
    assert "certs node" not in outcome.out
    ours, theirs = (Security.from_directory(place / "nodes" / name) for name in ("10.0.0.1", "fe80--2"))

    async def connects() -> None:
        """As the parent on one node, and a worker on the other."""
        came: list[Connection] = []
        async with (
            open_network("parent", ours, role="parent", roles=("worker",)) as parent,
            open_network("worker-1", theirs, role="worker", roles=("parent",)) as worker,
        ):
            listener = await parent.listen("127.0.0.1:0", came.append)
            await worker.connect(listener.address)

    with asyncio.Runner() as runner:
        runner.run(connects())
