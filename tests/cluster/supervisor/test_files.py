"""Slot files and logs: what is on the disk of a supervisor's machine."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import TopologyRecord
from aiostorm.cluster.parent_address import MAX_BYTES, read_address, write_address
from aiostorm.cluster.supervisor import (
    DiskFullError,
    DuplicateSupervisorError,
    Key,
    Launcher,
    Limits,
    Listening,
    LogRetention,
    SlotFiles,
    SlotNote,
)
from aiostorm.cluster.supervisor.logs import limit_log, prepare_log
from aiostorm.cluster.supervisor.old_logs import remove_old_logs
from aiostorm.cluster.supervisor.wanted import Rest
from aiostorm.runtime import ProcessIdentity
from aiostorm.runtime.processes import open_log

KEY = Key("words/ü".replace("/", "-"), "worker-1")
NOTE = SlotNote(KEY, 3, ProcessIdentity(4026531836, 4711, 98231))


async def test_they_are_read_as_they_were_written(tmp_path: Path) -> None:
    files = SlotFiles(tmp_path / "a" / "slots", "boot")
    long = SlotNote(Key("ü" * 128, "parent"), 1, NOTE.identity)
    async with files.owned():
        assert await files.read() == []
        for note in (NOTE, long, SlotNote(KEY, 4, NOTE.identity)):
            await files.write(note)
        assert {note.key: note.generation for note in await files.read()} == {KEY: 4, long.key: 1}
        await files.remove(KEY)
        await files.remove(KEY)
        assert await files.read() == [long]
        (path,) = (tmp_path / "a" / "slots").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_processes_of_before_the_machine_was_started_are_not_there(tmp_path: Path) -> None:
    before, now = SlotFiles(tmp_path / "slots", "one"), SlotFiles(tmp_path / "slots", "two")
    async with before.owned():
        await before.write(NOTE)
    async with now.owned():
        assert await now.read() == []
        assert not list((tmp_path / "slots").iterdir())


async def test_an_end_in_order_is_kept_also_over_a_start_of_the_machine(tmp_path: Path) -> None:
    before, now = SlotFiles(tmp_path / "slots", "one"), SlotFiles(tmp_path / "slots", "two")
    note = SlotNote(KEY, 3, NOTE.identity, Rest(3, 1234.5))
    async with before.owned():
        await before.write(note)
    async with now.owned():
        assert await now.read() == [note]


async def test_one_supervisor_has_the_folder(tmp_path: Path) -> None:
    files = SlotFiles(tmp_path / "slots")
    async with files.owned():
        with pytest.raises(DuplicateSupervisorError, match="--id"):
            async with SlotFiles(tmp_path / "slots").owned():
                pass
    async with files.owned():
        pass


GOOD = {"topology": "words", "process": "worker-1", "generation": 1, "identity": "1-2-3", "boot": "boot"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{" * 100_000,
        json.dumps(GOOD).encode(),
        *[json.dumps({key: value for key, value in GOOD.items() if key != name}).encode() for name in GOOD],
        json.dumps(GOOD | {"process": "../../x"}).encode(),
        json.dumps(GOOD | {"topology": ""}).encode(),
        json.dumps(GOOD | {"identity": "1-2"}).encode(),
        json.dumps(GOOD | {"generation": "x"}).encode(),
    ],
    ids=range(15),
)
async def test_what_is_broken_is_reported_and_removed(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "slots"
    files = SlotFiles(folder, "boot")
    async with files.owned():
        await files.write(NOTE)
        (folder / "x.worker-1.json").write_bytes(content)
        assert await files.read() == [NOTE]
        assert not (folder / "x.worker-1.json").exists()
        assert "is removed" in caplog.text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.binary(max_size=300))
def test_any_bytes_are_no_end_of_it(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "slots"
    folder.mkdir(exist_ok=True)
    (folder / "x.json").write_bytes(content)
    assert SlotFiles(folder, "boot")._read_all() == []


async def test_neither_links_nor_folders_are_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "slots"
    files = SlotFiles(folder, "boot")
    (tmp_path / "other").write_text("kept")
    async with files.owned():
        (folder / "link.json").symlink_to(tmp_path / "other")
        (folder / "folder.json").mkdir()
        os.mkfifo(folder / "pipe.json")
        assert await files.read() == []
        assert (tmp_path / "other").read_text() == "kept"
        assert sorted(os.listdir(folder)) == ["folder.json"]
        assert "cannot be removed" in caplog.text


# -- logs --------------------------------------------------------------------------------------------------------------


def test_a_log_that_is_too_large_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "worker-1.log"
    prepare_log(log, 10)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    log.write_bytes(b"x" * 10)
    prepare_log(log, 10)
    assert log.read_bytes() == b"x" * 10
    log.write_bytes(b"y" * 11)
    prepare_log(log, 10)
    assert log.read_bytes() == b""
    assert Path(f"{log}.1").read_bytes() == b"y" * 11


def test_the_log_of_a_running_process_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.log"
    fd = open_log(log)
    try:
        os.write(fd, b"0123456789")
        limit_log(log, 10)
        assert log.read_bytes() == b"0123456789"
        os.write(fd, b"abcde")
        limit_log(log, 10)
        assert log.read_bytes() == b""
        assert Path(f"{log}.1").read_bytes() == b"56789abcde"
        os.write(fd, b"more")
        assert log.read_bytes() == b"more", "it goes on at the beginning"
        limit_log(tmp_path / "none.log", 10)
    finally:
        os.close(fd)


def test_a_log_that_cannot_be_cut_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "real").write_bytes(b"x" * 20)
    (tmp_path / "link.log").symlink_to(tmp_path / "real")
    limit_log(tmp_path / "link.log", 10)
    assert (tmp_path / "real").read_bytes() == b"x" * 20
    assert "cannot be cut" in caplog.text
    caplog.set_level(logging.INFO)


# -- logs of topologies that have ended --------------------------------------------------------------------------------

NOW_S = 1_800_000_000.0
DAY_S = 86_400.0


def logs_of(place: Path, name: str, days: float, size_bytes: int = 100) -> Path:
    """A folder of logs that was last written so many days ago."""
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "worker-1.log").write_bytes(b"x" * size_bytes)
    for path in (folder / "worker-1.log", folder):
        os.utime(path, (NOW_S - days * DAY_S, NOW_S - days * DAY_S))
    return folder


def test_old_logs_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, kept, young = (logs_of(tmp_path, *each) for each in (("a", 8), ("b%2Fc", 9), ("d", 6)))
    remove_old_logs(tmp_path, {"b/c"}, LogRetention(7 * DAY_S), NOW_S)
    assert sorted(tmp_path.iterdir()) == [kept, young]
    assert f"the logs in {old} are removed: they are old, and their topology has ended" in caplog.messages


def test_the_oldest_logs_go_first_when_they_take_too_much(tmp_path: Path) -> None:
    for name, days in (("oldest", 5), ("older", 4), ("runs", 6), ("young", 1)):
        logs_of(tmp_path, name, days)
    remove_old_logs(tmp_path, {"runs"}, LogRetention(7 * DAY_S, 250), NOW_S)
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "young"}
    remove_old_logs(tmp_path, {"runs"}, LogRetention(7 * DAY_S, 0), NOW_S)
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}, "whatever it takes"


def test_no_link_is_followed_when_logs_are_removed(tmp_path: Path) -> None:
    outside = logs_of(tmp_path, "outside", 100)
    place = tmp_path / "logs"
    inside = logs_of(place, "ended", 100)
    (inside / "link").symlink_to(outside)
    (inside / "link.log").symlink_to(outside / "worker-1.log")
    os.utime(inside, (NOW_S - 100 * DAY_S,) * 2)
    (place / "linked").symlink_to(outside)
    (place / "file").write_text("")
    for link in (inside / "link", inside / "link.log"):
        os.utime(link, (NOW_S - 100 * DAY_S,) * 2, follow_symlinks=False)
    remove_old_logs(place, (), LogRetention(), NOW_S)
    assert {path.name for path in place.iterdir()} == {"linked", "file"}
    assert (outside / "worker-1.log").exists()


def test_logs_that_cannot_be_removed_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = logs_of(tmp_path, "ended", 100)

    def refuse(path: object, **rest: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    remove_old_logs(tmp_path, (), LogRetention(), NOW_S)
    assert folder.exists()
    assert f"the old logs in {folder} cannot be removed: Permission denied" in caplog.text


async def test_logs_of_what_was_just_launched_are_kept(tmp_path: Path) -> None:
    """It was submitted again after the names were read."""
    home = Home(tmp_path)
    launcher = Launcher(home, "sqlite:/x.db", "a", OneCode(), retention=LogRetention(0.0, 0))
    logs_of(tmp_path / "logs", "ended", 1)
    await launcher.launch(KEY, TopologyRecord("words:topology"))
    await launcher.remove_logs((), NOW_S)
    assert list((tmp_path / "logs").iterdir()) == [home.logs(KEY.topology)]
    await launcher.remove_logs((), NOW_S)
    assert list((tmp_path / "logs").iterdir()) == []


async def test_a_line_of_the_supervisor_in_a_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    launcher = Launcher(Home(tmp_path), "sqlite:/x.db", "a", OneCode())
    launch = await launcher.launch(KEY, TopologyRecord("words:topology"))
    launch.log.write_text("its own\n")
    await launcher.note(KEY, "killed: why")
    assert launch.log.read_text() == "its own\nkilled: why\n"
    launch.log.unlink()
    launch.log.mkdir()
    await launcher.note(KEY, "killed: why")
    assert f"{launch.log} cannot be written" in caplog.text


async def test_the_limit_of_a_worker(tmp_path: Path) -> None:
    launcher = Launcher(Home(tmp_path), "sqlite:/x.db", "a", OneCode())
    record = TopologyRecord("words:topology", worker_memory_bytes=1000)
    worker = (await launcher.launch(KEY, record)).arguments
    assert worker[worker.index("--data-limit") + 1] == "2000"
    assert "--data-limit" not in (await launcher.launch(Key("words", "parent"), record)).arguments


async def test_the_limits_of_a_cgroup_are_those_of_the_worker(tmp_path: Path) -> None:
    launcher = Launcher(Home(tmp_path), "sqlite:/x.db", "a", OneCode())
    record = TopologyRecord("words:topology", worker_memory_bytes=1000, worker_cores=0.5)
    assert (await launcher.launch(KEY, record)).limits == Limits(1000, 0.5)
    assert (await launcher.launch(Key("words", "parent"), record)).limits == Limits()


async def test_no_process_is_begun_on_a_full_disk(tmp_path: Path) -> None:
    launcher = Launcher(Home(tmp_path), "sqlite:/x.db", "a", OneCode(), keep_free_bytes=2**62)
    with pytest.raises(DiskFullError, match=r"MiB free, and no process is begun with less .*--keep-free"):
        await launcher.launch(KEY, TopologyRecord("words:topology"))
    assert not (tmp_path / "logs").exists()
    launcher = Launcher(Home(tmp_path), "sqlite:/x.db", "a", OneCode(), keep_free_bytes=0)
    assert (await launcher.launch(KEY, TopologyRecord("words:topology"))).log.exists()


# -- what a process is started with ------------------------------------------------------------------------------------


class OneCode:
    async def path(self, blob: str) -> str:
        return f"/code/{blob}"

    async def remove_unused(self, used: object) -> None:
        raise NotImplementedError


async def test_the_arguments_of_a_worker_and_a_parent(tmp_path: Path) -> None:
    home = Home(tmp_path)
    launcher = Launcher(home, "sqlite:/x.db", "a", OneCode(), ("--log-level", "info"))
    record = TopologyRecord("words:topology", blob="abc")
    worker = await launcher.launch(Key("words", "worker-2"), record)
    assert worker.log == home.log("words", "worker-2")
    assert worker.log.exists()
    assert home.sockets("words").is_dir()
    assert worker.arguments == (
        "worker",
        "--name",
        "worker-2",
        "--topology=words",
        "--target=words:topology",
        f"--connect={home.socket('words', 'parent')}",
        f"--listen={home.socket('words', 'worker-2')}",
        "--path=/code/abc",
        "--token-file",
        str(home.credentials),
        "--outlive-parent",
        "60",
        "--generation",
        "1",
        "--log-level",
        "info",
    )
    parent = await launcher.launch(Key("-words", "parent"), TopologyRecord("words:topology"))
    place = ("--home", str(tmp_path), "--store", "sqlite:/x.db", "--supervisor", "a")
    assert parent.arguments == ("parent", *place, "--log-level", "info", "--", "-words")
    installed = await launcher.launch(Key("words", "worker-1"), TopologyRecord("words:topology"))
    assert not any(argument.startswith("--path") for argument in installed.arguments)


async def test_with_an_address_processes_listen_there_and_workers_read_where_their_parent_is(tmp_path: Path) -> None:
    home = Home(tmp_path)
    security = ("--credentials", "/certs/a")
    launcher = Launcher(home, "zk://x", "a", OneCode(), (), None, Listening("10.0.0.1", security))
    worker = await launcher.launch(Key("words", "worker-2"), TopologyRecord("words:topology"))
    assert "--listen=10.0.0.1:0" in worker.arguments
    assert f"--parent-file={home.parent_address('words')}" in worker.arguments
    assert not any(argument.startswith(("--connect", "--token-file")) for argument in worker.arguments)
    parent = await launcher.launch(Key("words", "parent"), TopologyRecord("words:topology"))
    for process in (worker, parent):
        at = process.arguments.index("--credentials")
        assert process.arguments[at : at + 2] == security
    assert "--host=10.0.0.1" in parent.arguments
    assert Listening("::1").listen == "[::1]:0"


async def test_the_address_of_a_parent_is_kept_until_there_is_another_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    launcher = Launcher(home, "zk://x", "a", OneCode(), (), None, Listening("10.0.0.1"))
    path = home.parent_address("words")
    await launcher.note_parents({"words": ""})
    assert read_address(path) == ""
    await launcher.note_parents({"words": "10.0.0.1:4711"})
    assert read_address(path) == "10.0.0.1:4711"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await launcher.note_parents({"words": ""})  # it has just ended, or is cut off from the store
    assert read_address(path) == "10.0.0.1:4711"
    await launcher.note_parents({"words": "10.0.0.2:1"})
    assert read_address(path) == "10.0.0.2:1"
    await launcher.note_parents({})
    assert not path.exists()
    alone = Launcher(home, "sqlite:/x", "a", OneCode())
    await alone.note_parents({"words": "unix:/x"})
    assert not path.exists()


def test_an_address_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "address"
    write_address(path, "")
    for content in (b"\xff\xfe", b"x" * (MAX_BYTES + 1)):
        path.write_bytes(content)
        assert read_address(path) == ""
    path.unlink()
    path.mkdir()
    assert read_address(path) == ""
    path.rmdir()
    path.symlink_to(tmp_path / "other")
    (tmp_path / "other").write_text("10.0.0.1:1")
    assert read_address(path) == ""
