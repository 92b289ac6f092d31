"""`aiostorm snapshots`, and the options of `aiostorm run` for the guarantee."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from aiostorm import Config
from aiostorm.cli.errors import CommandError
from aiostorm.cli.options import take_snapshot_options
from aiostorm.runtime import DirectoryStore

from .conftest import JOBS, Command

EXACT = f"{JOBS}:exact"


def test_a_run_continues_where_the_last_one_ended(aiostorm: Command, tmp_path: Path) -> None:
    options = ("-q", "--guarantee", "exactly-once", "--state", str(tmp_path / "state"))
    assert aiostorm("run", EXACT, "10", *options).out.startswith("sum  45\n")
    outcome = aiostorm("run", EXACT, "20", *options)
    assert outcome.out.startswith("sum  190\n")
    assert re.search(r"^numbers +1 +10 ", outcome.out, re.MULTILINE), "the first ten are not emitted again"
    again = aiostorm("run", EXACT, "20", *options, "--restore", "none")
    assert re.search(r"^numbers +1 +20 ", again.out, re.MULTILINE)


def test_a_run_says_what_its_snapshots_were(aiostorm: Command, tmp_path: Path) -> None:
    options = ("-q", "--guarantee", "exactly-once", "--state", str(tmp_path))
    outcome = aiostorm("run", EXACT, "10", *options)
    assert "rows       10 emitted by spouts, 10 executed by bolts\n" in outcome.out
    assert re.search(
        r"^snapshots +\d+ taken, the last is number \d+: took \d+ ms, \d+ bytes$", outcome.out, re.MULTILINE
    )
    assert "acked" not in outcome.out
    found = aiostorm("run", EXACT, "10", *options, "--json").json
    assert found["messages"] is None
    assert found["snapshots"]["taken"] >= 1


def test_the_snapshots_of_a_folder(aiostorm: Command, tmp_path: Path) -> None:
    options = ("-q", "--guarantee", "exactly-once", "--state", str(tmp_path))
    assert aiostorm("run", EXACT, *options).code == 0
    outcome = aiostorm("snapshots", str(tmp_path))
    assert (outcome.code, outcome.err) == (0, "")
    head, *rows, together = outcome.out.splitlines()
    assert head.split() == ["number", "taken", "bytes", "topology", "kind", "tasks"]
    assert re.fullmatch(
        r" *\d+  20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\+00:00 +\d+  sums +snapshot  numbers: 1, sum: 1", rows[-1]
    )

    found = aiostorm("snapshots", str(tmp_path), "--json").json
    assert found["place"] == str(tmp_path)
    last = found["snapshots"][-1]
    assert (last["topology"], last["savepoint"], last["problem"]) == ("sums", False, "")
    assert {part["component"]: part["tasks"] for part in last["components"]} == {"numbers": 1, "sum": 1}
    assert last["size_bytes"] == sum(part["size_bytes"] for part in last["components"]) > 0
    assert str(last["number"]) == rows[-1].split()[0]
    assert together == f"together: {found['total_bytes']:,} bytes"
    assert found["total_bytes"] == sum(path.stat().st_size for path in tmp_path.glob("t*"))


def test_damaged_snapshots_are_named_with_the_reason(aiostorm: Command, tmp_path: Path) -> None:
    options = ("-q", "--guarantee", "exactly-once", "--state", str(tmp_path))
    assert aiostorm("run", EXACT, *options).code == 0
    assert aiostorm("run", EXACT, *options).code == 0
    manifests = sorted(tmp_path.glob("m-*"))
    blob = next(iter(sorted(tmp_path.glob("t*"))))
    blob.write_bytes(blob.read_bytes()[:-1])
    manifests[-1].write_bytes(b"half")
    outcome = aiostorm("snapshots", str(tmp_path))
    assert outcome.code == 1
    number = manifests[-1].stem.partition("-")[2]
    assert f"snapshot {number} cannot be restored: m-{number}: its checksum is wrong" in outcome.out
    assert f"{blob.stem}: the blob has " in outcome.out
    assert "snapshot, damaged" in outcome.out
    found = aiostorm("snapshots", str(tmp_path), "--json")
    assert found.code == 1
    assert found.json["snapshots"][-1]["taken"] is None


def test_a_topology_may_be_running(aiostorm: Command, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    with asyncio.Runner() as runner:
        runner.run(store.write("other", b""))
        before = sorted(tmp_path.iterdir())
        outcome = aiostorm("snapshots", str(tmp_path))
        assert (outcome.code, outcome.out) == (0, f"{tmp_path}: no snapshots\n")
        assert sorted(tmp_path.iterdir()) == before
        runner.run(store.close())


def test_a_place_that_cannot_be_read(aiostorm: Command, tmp_path: Path) -> None:
    outcome = aiostorm("snapshots", str(tmp_path / "none"))
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no such folder" in outcome.err
    assert not (tmp_path / "none").exists()
    outcome = aiostorm("snapshots", "nothing://bucket/state")
    assert outcome.code == 2
    assert "nothing://bucket/state cannot be opened" in outcome.err


@pytest.mark.parametrize(("restore", "error"), [("x", "is not latest"), ("0", "a number from 1"), ("-1", "or none")])
def test_what_to_restore_is_checked(aiostorm: Command, restore: str, error: str) -> None:
    outcome = aiostorm("run", EXACT, "--restore", restore)
    assert outcome.code == 2
    assert error in outcome.err


def test_a_snapshot_that_is_not_there(aiostorm: Command, tmp_path: Path) -> None:
    options = ("-q", "--guarantee", "exactly-once", "--state", str(tmp_path), "--restore", "7")
    outcome = aiostorm("run", EXACT, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no snapshot 7; there are: none" in outcome.err


def test_a_folder_that_cannot_be_one_is_exit_code_2(aiostorm: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = aiostorm("run", EXACT, "-q", "--guarantee", "exactly-once", "--state", str(tmp_path / "file"))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"Error: {tmp_path / 'file'} cannot be made as a folder: it is a file.")
    outcome = aiostorm("run", EXACT, "-q", "--guarantee", "exactly-once", "--state", "")
    assert outcome.code == 2
    assert "topology.state.dir" in outcome.err


@pytest.mark.parametrize("option", [("--state", "state"), ("--restore", "3"), ("--restore", "none")])
def test_snapshots_need_exactly_once(aiostorm: Command, option: tuple[str, str]) -> None:
    outcome = aiostorm("run", EXACT, *option)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{option[0]}: the guarantee is at-least-once, and only exactly-once has snapshots" in outcome.err


def test_the_options_become_settings() -> None:
    options = {"guarantee": "exactly-once", "state": 'a: "b"', "restore": 3, "token": "t"}
    taken = take_snapshot_options(options)
    assert options == {"token": "t"}
    config = Config.load(overrides=taken.settings, env={})
    assert (config.guarantee, config.state_dir, taken.restore) == ("exactly-once", 'a: "b"', 3)
    assert config.source_of("state_dir") == "-c"
    taken.check(config)
    with pytest.raises(CommandError, match="--state: the guarantee is at-least-once"):
        taken.check(Config())
    nothing = take_snapshot_options({"guarantee": None, "state": None, "restore": "latest"})
    assert nothing.settings == ()
    nothing.check(Config())


def test_a_guarantee_that_the_topology_cannot_have(aiostorm: Command) -> None:
    outcome = aiostorm("run", JOBS, "-q", "--guarantee", "exactly-once")
    assert (outcome.code, outcome.out) == (2, "")
    assert "spout 'numbers': @spout function 'numbers' is called again after a failure" in outcome.err
