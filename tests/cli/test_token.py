"""`aiostorm token`, and the commands of a cluster that ask a nimbus, which is a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiostorm.cluster import Home
from aiostorm.cluster.access import Role, TokenFile
from aiostorm.transport import Credentials

from .conftest import Command

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs unix sockets")

WAIT_S = 30


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    for name in ("STORE", "NIMBUS", "TOKEN_FILE", "CA", "CERTIFICATE"):
        monkeypatch.delenv(f"AIOSTORM_{name}", raising=False)
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AIOSTORM_HOME", f"{folder}/home")
        yield Home(Path(folder, "home"))


def test_a_token_is_made_listed_and_revoked(home: Home, aiostorm: Command) -> None:
    made = aiostorm("token", "add", "ann", "--role", "operator", "--expires", "12h")
    assert (made.code, made.err) == (0, "")
    file = Path("ann.token")
    token = Credentials.from_file(file)
    assert token.cluster_id == "ann"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() not in made.out
    [listed] = aiostorm("token", "list", "--json").json["tokens"]
    assert (listed["name"], listed["role"]) == ("ann", "operator")
    assert listed["ends_s"] == pytest.approx(listed["made_s"] + 12 * 3600)
    assert "operator" in aiostorm("token", "list").out
    assert TokenFile(home.tokens).read().check(token, time.time()) is not None
    assert aiostorm("token", "revoke", "ann").code == 0
    assert aiostorm("token", "list").out.startswith("no tokens")
    assert TokenFile(home.tokens).read().check(token, time.time()) is None


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("a b", "--role", "viewer"), "1 to 64"),
        (("../x", "--role", "viewer"), "1 to 64"),
        (("ann", "--role", "root"), "is not one of"),
        (("ann", "--role", "viewer", "--expires", "soon"), "90m, 12h, 30d"),
        (("ann", "--role", "viewer", "--expires", "0d"), "90m, 12h, 30d"),
        (("there", "--role", "viewer"), "already: revoke it"),
        (("ann", "--role", "viewer", "--out", "there.token"), "is there already"),
        (("ann", "--role", "viewer", "--out", "no/folder"), "No such file"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_token_that_cannot_be_made_leaves_no_file(arguments: tuple[str, ...], what: str, aiostorm: Command) -> None:
    assert aiostorm("token", "add", "there", "--role", "viewer").code == 0
    before = Path("there.token").read_bytes()
    if arguments[0] == "there":
        arguments = (*arguments, "--out", "other")
    made = aiostorm("token", "add", *arguments)
    assert made.code == 2
    assert what in made.err
    assert Path("there.token").read_bytes() == before
    assert sorted(os.listdir(".")) == ["home", "there.token"]
    assert len(aiostorm("token", "list", "--json").json["tokens"]) == 1


@pytest.mark.usefixtures("home")
def test_what_there_is_not_cannot_be_revoked(aiostorm: Command) -> None:
    assert "there is none at all" in aiostorm("token", "revoke", "ann").err


@POSIX
@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--listen", "0.0.0.0:0"), 78, "it needs TLS (--certificates DIR"),
        (("--listen", "[::]:0"), 78, "its clients tokens (`aiostorm token add"),
        (("--listen", "nowhere"), 2, "not an address"),
        (("--certificates", "."), 2, "--listen HOST:PORT: add it"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_nimbus_that_must_not_listen(arguments: tuple[str, ...], code: int, what: str, aiostorm: Command) -> None:
    found = aiostorm("nimbus", *arguments)
    assert found.code == code
    assert what in found.err
    assert "\n" not in found.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--nimbus", "http://x"), "is aiostorm://HOST:PORT"),
        (("--nimbus", "aiostorm://x"), "is not an address"),
        (("--nimbus", "aiostorm://127.0.0.1:1"), "needs a token"),
        (("--nimbus", "aiostorm://127.0.0.1:1", "--token-file", "none"), "cannot be read"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_nimbus_that_cannot_be_asked(arguments: tuple[str, ...], what: str, aiostorm: Command) -> None:
    found = aiostorm("list", *arguments)
    assert found.code == 2
    assert what in found.err


@POSIX
@pytest.mark.slow
def test_commands_ask_a_nimbus(home: Home, aiostorm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in Role:
        if role is not Role.PUBLIC:
            assert aiostorm("token", "add", role.value, "--role", role.value).code == 0
    log = home.path.with_name("log")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "aiostorm", "nimbus", "--listen", "127.0.0.1:0"]
        nimbus = subprocess.Popen(command, stderr=output)
    try:
        monkeypatch.setenv("AIOSTORM_NIMBUS", f"aiostorm://{address_in(log)}")
        Path("jobs.py").write_text("from aiostorm import TopologyBuilder\n")
        submit = ("submit", "--no-check", "--name", "words", "--code", ".", "--wait", "0", "jobs:topology")
        for role, code in ("viewer", 77), ("operator", 77), ("submitter", 0):
            found = aiostorm(*submit, "--token-file", f"{role}.token")
            assert (found.code, "needs the role submitter" in found.err) == (code, code == 77), found.err
        [listed] = aiostorm("list", "--json", "--token-file", "viewer.token").json["topologies"]
        assert (listed["name"], listed["submitted_by"]) == ("words", "submitter")
        assert aiostorm("deactivate", "words", "--token-file", "viewer.token").code == 77
        assert aiostorm("deactivate", "words", "--token-file", "operator.token").code == 0
        assert aiostorm("kill", "words", "--token-file", "operator.token").code == 0
        assert aiostorm("token", "revoke", "operator", "--token-file", "operator.token").code == 77
        assert aiostorm("token", "revoke", "operator", "--token-file", "admin.token").code == 0
        found = aiostorm("nodes", "--token-file", "operator.token")
        assert found.code == 77
        assert "revoked" in found.err
    finally:
        nimbus.send_signal(signal.SIGTERM)
        assert nimbus.wait(WAIT_S) == 0
    found = aiostorm("nodes", "--token-file", "viewer.token")
    assert found.code == 69
    assert "no nimbus answers" in found.err
    done = [json.loads(line) for line in home.audit.read_text().splitlines()]
    assert [(line["who"], line["what"]) for line in done if line["result"] == "done"] == [
        ("submitter", "upload"),
        ("submitter", "submit"),
        ("operator", "deactivate"),
        ("operator", "kill"),
        ("admin", "revoke"),
    ]


def address_in(log: Path) -> str:
    """Where nimbus answers, as its log says."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        found = re.search(r"answers clients at (\S+)", log.read_text())
        if found is not None and "leads, in term" in log.read_text():
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text())
