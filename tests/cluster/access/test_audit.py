"""The audit log: its lines, and its file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import AuditError, AuditLog, Change, line_of
from aiostorm.cluster.access.audit import MAX_LINE_BYTES


def test_a_line_says_when_who_from_where_what_and_how_it_ended() -> None:
    line = line_of(Change(1_700_000_000.123, "ann", "operator", "10.0.0.7:51234", "kill", {"name": "words"}))
    assert json.loads(line) == {
        "at": "2023-11-14T22:13:20.123Z",
        "who": "ann",
        "role": "operator",
        "from": "10.0.0.7:51234",
        "what": "kill",
        "arguments": {"name": "words"},
        "result": "done",
    }
    assert line.endswith(b"}\n")


def test_secrets_are_not_in_it() -> None:
    canary = "canary-5f1c"
    arguments = {
        "config": {"db.password": canary, "api_key": canary, "url": f"postgres://me:{canary}@host/db", "plain": 1},
        "arguments": [f"https://user:{canary}@host/", f"TOKEN={canary}", f"--password={canary}", "a=b"],
    }
    line = line_of(Change(0, "ann", "submitter", "x", "submit", arguments)).decode()
    assert canary not in line
    found = json.loads(line)["arguments"]
    assert found["config"]["plain"] == 1
    assert found["arguments"][-1] == "a=b"


texts = st.text(max_size=2_000)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=80) | st.dictionaries(texts, inner, max_size=80),
    max_leaves=60,
)


@given(texts, texts, texts, st.dictionaries(texts, values, max_size=60))
def test_a_line_is_one_bounded_line_of_printable_ascii(
    who: str, what: str, result: str, arguments: dict[str, object]
) -> None:
    line = line_of(Change(1e9, who, "viewer", "x", what, arguments, result))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert all(32 <= byte < 127 for byte in line[:-1])
    assert len(line) <= MAX_LINE_BYTES + 1_024
    json.loads(line)


async def test_the_file_is_private_and_rotates_within_its_bound(short_path: Path) -> None:
    path = short_path / "audit.log"
    audit = AuditLog(path, max_bytes=1_000)
    await audit.check()
    for number in range(40):
        await audit.add(Change(float(number), "ann", "operator", "x", "kill", {"name": f"t{number}"}))
    parts = [path.with_name("audit.log.1"), path]
    lines = [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]
    assert lines[-1]["arguments"] == {"name": "t39"}
    numbers = [int(line["arguments"]["name"][1:]) for line in lines]
    assert numbers == list(range(numbers[0], 40))
    for part in parts:
        assert part.stat().st_size <= 1_000
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert sorted(os.listdir(short_path)) == ["audit.log", "audit.log.1"]


async def test_several_at_once_lose_no_line(short_path: Path) -> None:
    audits = [AuditLog(short_path / "audit.log") for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for number in range(60):
            change = Change(0, "ann", "operator", "x", "kill", {"name": str(number)})
            group.create_task(audits[number % 3].add(change))
    lines = (short_path / "audit.log").read_bytes().splitlines()
    assert sorted(int(json.loads(line)["arguments"]["name"]) for line in lines) == list(range(60))


async def test_where_it_cannot_be_written_it_says_so_before_and_the_log_has_the_line(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = short_path / "audit.log"
    path.mkdir()
    audit = AuditLog(path)
    with pytest.raises(AuditError, match="nothing is changed"):
        await audit.check()
    with caplog.at_level(logging.ERROR, "aiostorm.access"):
        await audit.add(Change(0, "ann", "operator", "x", "kill", {"name": "words"}))
    assert '"name": "words"' in caplog.text


async def test_a_link_is_not_followed(short_path: Path) -> None:
    (short_path / "other").write_bytes(b"")
    (short_path / "audit.log").symlink_to(short_path / "other")
    with pytest.raises(AuditError):
        await AuditLog(short_path / "audit.log").check()
