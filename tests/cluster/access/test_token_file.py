"""The file of tokens: private, read again when it changes, and nothing of a wrong one is used."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path

import pytest

from aiostorm.cluster.access import Role, TokenFile
from aiostorm.cluster.access.token_file import LOOK_S
from aiostorm.transport import Credentials, CredentialsError

POSIX = pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")


def text(token: Credentials) -> str:
    return token.to_bytes().decode().strip()


async def test_a_token_is_accepted_until_it_is_revoked(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens")
    ann = Credentials.new("ann")
    assert file.check(text(ann)) is None
    TokenFile(tmp_path / "tokens").add(ann, Role.OPERATOR)  # another process
    await asyncio.sleep(LOOK_S)
    found = file.check(text(ann))
    assert found is not None
    assert found.role is Role.OPERATOR
    TokenFile(tmp_path / "tokens").revoke("ann")
    await asyncio.sleep(LOOK_S)
    assert file.check(text(ann)) is None


async def test_it_ends(tmp_path: Path) -> None:
    file, ann = TokenFile(tmp_path / "tokens"), Credentials.new("ann")
    file.add(ann, Role.VIEWER, 60)
    assert file.check(text(ann)) is not None
    await asyncio.sleep(60)
    assert file.check(text(ann)) is None


@pytest.mark.parametrize("given", ["", "x", "ann", "ann.", ".x", "ann.!!", "\udcff", "x" * 10_000])
async def test_texts_that_are_no_token(tmp_path: Path, given: str) -> None:
    file = TokenFile(tmp_path / "tokens")
    file.add(Credentials.new("ann"), Role.ADMIN)
    assert file.check(given) is None


@POSIX
async def test_the_file_is_private_and_one_that_is_not_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    file, ann = TokenFile(path), Credentials.new("ann")
    file.add(ann, Role.ADMIN)
    assert {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in os.listdir(tmp_path)} == {
        "tokens": 0o600,
        "tokens.lock": 0o600,
    }
    assert file.check(text(ann)) is not None
    path.chmod(0o644)
    os.utime(path)
    await asyncio.sleep(LOOK_S)
    with caplog.at_level(logging.ERROR, "aiostorm.access"):
        assert file.check(text(ann)) is None
        await asyncio.sleep(LOOK_S)
        assert file.check(text(ann)) is None
    assert caplog.text.count("chmod 600") == 1
    path.chmod(0o600)
    await asyncio.sleep(LOOK_S)
    assert file.check(text(ann)) is not None


async def test_of_a_damaged_file_no_token_is_accepted_and_it_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    file, ann = TokenFile(path), Credentials.new("ann")
    file.add(ann, Role.ADMIN)
    assert file.check(text(ann)) is not None
    path.write_bytes(b"{")
    path.chmod(0o600)
    await asyncio.sleep(LOOK_S)
    assert file.check(text(ann)) is None
    with pytest.raises(CredentialsError):
        file.add(Credentials.new("sue"), Role.VIEWER)
    assert path.read_bytes() == b"{"
