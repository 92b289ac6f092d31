"""`aiostorm certs client`, `revoke` and `revoked`, and the commands of a cluster that show a certificate."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiostorm.cluster import Home
from aiostorm.transport import fingerprint_in

from .conftest import Command
from .test_token import POSIX, WAIT_S, address_in


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    for name in ("STORE", "NIMBUS", "TOKEN_FILE", "CA", "CERTIFICATE"):
        monkeypatch.delenv(f"AIOSTORM_{name}", raising=False)
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AIOSTORM_HOME", f"{folder}/home")
        yield Home(Path(folder, "home"))


@pytest.fixture
def certs(home: Home, aiostorm: Command) -> Path:
    assert aiostorm("certs", "init", "certs", "--cluster", "prod").code == 0
    return Path("certs")


def test_the_files_of_a_client(certs: Path, aiostorm: Command) -> None:
    made = aiostorm("certs", "client", certs, "ann", "--role", "operator", "--days", "30")
    assert (made.code, made.err) == (0, "")
    folder = certs / "clients" / "ann"
    assert sorted(os.listdir(folder)) == ["ca.pem", "certificate.pem", "key.pem"]  # and no token of the cluster
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert fingerprint_in(folder / "certificate.pem") in made.out
    assert not set((folder / "key.pem").read_text().splitlines()) & set(made.out.splitlines())
    again = aiostorm("certs", "client", certs, "ann", "--role", "admin")
    assert again.code == 1
    assert "--force" in again.err
    assert aiostorm("certs", "client", certs, "ann", "--role", "admin", "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("../x", "--role", "viewer"), "a name is 1 to 64"),
        (("ann\nbob", "--role", "viewer"), "a name is 1 to 64"),
        (("ann",), "Missing option '--role'"),
        (("ann", "--role", "worker"), "is not one of"),
        (("ann", "--role", "viewer", "--days", "36500"), "fewer --days"),
    ],
)
def test_a_client_that_cannot_be_made(arguments: tuple[str, ...], what: str, certs: Path, aiostorm: Command) -> None:
    made = aiostorm("certs", "client", certs, *arguments)
    assert made.code != 0
    assert what in made.err
    assert not (certs / "clients").exists()


@pytest.mark.parametrize("which", ["ann", "00", "certs/ca-key.pem", "certs"])
def test_what_is_no_certificate_is_not_revoked(which: str, certs: Path, aiostorm: Command) -> None:
    found = aiostorm("certs", "revoke", which)
    assert found.code == 2
    assert "certificate" in found.err


def test_without_a_cluster_nothing_is_revoked(certs: Path, aiostorm: Command) -> None:
    assert aiostorm("certs", "client", certs, "ann", "--role", "viewer").code == 0
    for command in ("revoke", "certs/clients/ann"), ("revoked",):
        assert aiostorm("certs", *command).code == 69


@pytest.mark.parametrize(
    ("environment", "arguments", "what"),
    [
        ({}, ("--certificate", "c", "--token-file", "t"), "a token and a certificate"),
        ({}, ("--certificate", "c", "--ca", "x"), "leave out --ca"),
        ({"TOKEN_FILE": "t", "CERTIFICATE": "c"}, (), "a token and a certificate"),
        ({"TOKEN_FILE": "t", "CA": "x"}, ("--certificate", "c"), "c/key.pem"),  # what is typed counts
        ({"CERTIFICATE": "c"}, ("--token-file", "t"), "t cannot be read"),
        ({"CERTIFICATE": "c"}, (), "c/key.pem"),
    ],
)
def test_which_of_token_and_certificate_counts(
    environment: dict[str, str],
    arguments: tuple[str, ...],
    what: str,
    home: Home,
    aiostorm: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not home.path.exists()
    for name, value in environment.items():
        monkeypatch.setenv(f"AIOSTORM_{name}", value)
    found = aiostorm("list", "--nimbus", "aiostorm://127.0.0.1:1", *arguments)
    assert found.code == 2
    assert what in found.err


@POSIX
@pytest.mark.slow
def test_commands_show_a_certificate(
    home: Home, certs: Path, aiostorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        aiostorm("certs", "node", certs, "n", "--host", "127.0.0.1", "--role", "parent", "--role", "worker").code == 0
    )
    for role in ("viewer", "operator", "admin"):
        assert aiostorm("certs", "client", certs, role, "--role", role).code == 0
    log = home.path.with_name("log")
    with log.open("wb") as output:
        listen = ["--listen", "127.0.0.1:0", "--certificates", "certs/nodes/n"]
        nimbus = subprocess.Popen([sys.executable, "-m", "aiostorm", "nimbus", *listen], stderr=output)

    def shown(role: str) -> tuple[str, str]:
        return "--certificate", f"certs/clients/{role}"

    try:
        monkeypatch.setenv("AIOSTORM_NIMBUS", f"aiostorm://{address_in(log)}")
        assert aiostorm("list", "--json", *shown("viewer")).json["topologies"] == []
        assert aiostorm("kill", "words", *shown("viewer")).code == 77
        assert aiostorm("nodes", "--certificate", "certs/nodes/n").code == 77  # a node's
        assert aiostorm("certs", "revoke", "certs/clients/viewer", *shown("operator")).code == 77
        assert aiostorm("certs", "revoke", "certs/clients/viewer", *shown("admin")).code == 0
        found = aiostorm("list", *shown("viewer"))
        assert found.code == 77
        assert "refuses the certificate" in found.err
        [revoked] = aiostorm("certs", "revoked", "--json", *shown("admin")).json["revoked"]
        assert (revoked["sha256"], revoked["by"]) == (
            fingerprint_in("certs/clients/viewer/certificate.pem"),
            "cert:admin",
        )
        assert 89 * 86_400 < revoked["ends_s"] - revoked["revoked_s"] <= 90 * 86_400
        leader = aiostorm("nodes", "--json", *shown("admin")).json["leader"]
        assert leader["address"] == address_in(log), "the port that the system has chosen"
        monkeypatch.delenv("AIOSTORM_NIMBUS")
        assert aiostorm("certs", "revoke", "certs/clients/operator").code == 0  # over the store
        assert aiostorm("certs", "revoked").out.count("\n") >= 3
    finally:
        nimbus.send_signal(signal.SIGTERM)
        assert nimbus.wait(WAIT_S) == 0
    lines = [json.loads(line) for line in home.audit.read_text().splitlines()]
    assert [(line["what"], line["role"], "certificate" in line) for line in lines if line["result"] == "done"] == [
        ("revoke_certificate", "admin", True),
        ("revoke_certificate", "home", False),
    ]
