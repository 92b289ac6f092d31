"""Credentials: read from where only we can read, and shown nowhere."""

from __future__ import annotations

import copy
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport import Credentials, CredentialsError, Secret, Security, new_token
from aiostorm.transport.net.credentials import VARIABLE

CANARY = b"canary-canary-canary-canary-canary"
POSIX = pytest.mark.skipif(os.name == "nt", reason="modes of files")


def private(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


@given(st.text("abcXYZ019_-", min_size=1, max_size=64), st.binary(min_size=32, max_size=64))
def test_they_are_one_line_and_come_back(cluster_id: str, token: bytes) -> None:
    credentials = Credentials(cluster_id, Secret(token))
    line = credentials.to_bytes()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert Credentials.from_bytes(line) == credentials
    assert Credentials.from_bytes(line.strip() + b"\r\n") == credentials


def test_from_a_file_the_environment_and_standard_input(tmp_path: Path) -> None:
    credentials = Credentials.new("demo")
    assert Credentials.from_file(private(tmp_path / "token", credentials.to_bytes())) == credentials
    assert Credentials.from_environment({VARIABLE: credentials.to_bytes().decode()}) == credentials
    assert Credentials.from_environment({}) is None
    assert Credentials.new("demo") != credentials
    assert new_token() != new_token()
    assert len(new_token().reveal()) == 32


@POSIX
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "token", Credentials.new("demo").to_bytes())
    path.chmod(mode)
    with pytest.raises(CredentialsError, match=f"chmod 600 {path}"):
        Credentials.from_file(path)


def test_a_file_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        Credentials.from_file(tmp_path / "nothing")
    tmp_path.chmod(0o700)
    with pytest.raises(CredentialsError, match="cannot be read"):
        Credentials.from_file(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe", 0o600)
        with pytest.raises(CredentialsError, match="cannot be used"):
            Credentials.from_file(tmp_path / "pipe")  # no process writes to it: the call does not wait for one


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"canary",
        b"canary.",
        b".canary-canary-canary-canary-canary-canary-can",
        b"demo.canary",
        b"demo.canary canary canary canary canary canary canary",
        b"d mo.canarycanarycanarycanarycanarycanarycanarycan",
        b"demo." + b"c" * 2000,
        b"\xff\xfe" * 40,
        b"demo.canarycanarycanarycanarycanarycanarycanaryca\ndemo.canary",
    ],
)
def test_malformed_credentials_are_refused_and_not_shown(line: bytes, tmp_path: Path) -> None:
    for read in (
        lambda: Credentials.from_bytes(line),
        lambda: Credentials.from_file(private(tmp_path / "token", line)),
        lambda: Credentials.from_environment({VARIABLE: line.decode("latin-1")}),
    ):
        with pytest.raises(CredentialsError) as raised:
            read()
        error: BaseException | None = raised.value
        while error is not None:
            assert "canary" not in f"{error} {error!r}"
            error = error.__cause__ or error.__context__


def test_a_short_token_is_refused() -> None:
    with pytest.raises(CredentialsError, match="at least 32 bytes"):
        Credentials("demo", Secret(bytes(31)))
    with pytest.raises(CredentialsError, match="cluster's id"):
        Credentials("de mo", Secret(bytes(32)))


def test_a_secret_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(CANARY)
    credentials = Credentials("demo", secret)
    shown = [repr(secret), str(secret), f"{secret} {secret!r} {secret!s:>9} {credentials}"]
    shown += [repr(Security(credentials)), repr(vars(Credentials)), repr([secret]), repr(dir(secret))]
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("aiostorm").warning("with %s and %r", credentials, secret)
    for text in (*shown, caplog.text):
        assert "canary" not in text
    assert "***" in caplog.text
    for leave in (copy.copy, copy.deepcopy, lambda kept: kept.__reduce_ex__(2)):
        with pytest.raises(TypeError, match="cannot be pickled"):
            leave(secret)
    with pytest.raises(TypeError, match="unhashable"):
        hash(secret)
    assert secret == Secret(CANARY)
    assert secret != Secret(CANARY + b"!")
    assert secret != CANARY
    assert secret.reveal() == CANARY


def test_derived_credentials_are_of_the_same_cluster_and_tell_nothing_of_ours() -> None:
    credentials = Credentials.new("demo")
    words, other = credentials.derived("words"), credentials.derived("other")
    assert words.cluster_id == "demo"
    assert words == Credentials.from_bytes(credentials.to_bytes()).derived("words")
    assert len({each.token.reveal() for each in (credentials, words, other, words.derived("words"))}) == 4
    assert Security(credentials).derived("words") == Security(words)
    assert Security().derived("words") == Security()


def test_a_fingerprint_tells_credentials_apart_and_is_no_part_of_them() -> None:
    one, other = Credentials.new("demo"), Credentials.new("demo")
    assert one.fingerprint == Credentials.from_bytes(one.to_bytes()).fingerprint
    assert one.fingerprint != other.fingerprint
    assert bytes.fromhex(one.fingerprint) not in one.token.reveal()
