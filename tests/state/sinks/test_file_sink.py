"""FileSink: killed before and after each operation on files, with and without a crash of the machine, and by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aiostorm.state import FileSink, Sink, SinkError
from aiostorm.state.sinks import file_sink
from aiostorm.state.sinks.file_sink import Folder, LocalFolder
from aiostorm.topology import Tuple

from .sink_runs import ROWS, Kill, all_kills, context, row, run, sent


class MemoryFolder:
    """Files in memory. A crash of the machine undoes renames and removals that were not synced."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}

    def write(self, name: str, data: Sequence[bytes]) -> None:
        self.files[name] = self.durable[name] = b"".join(data)

    def rename(self, name: str, new: str) -> None:
        self.files[new] = self.files.pop(name)

    def exists(self, name: str) -> bool:
        return name in self.files

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self.files)

    def sync(self) -> None:
        self.durable = dict(self.files)

    def crash(self) -> None:
        self.files = dict(self.durable)


class KilledFolder:
    """A folder whose operations are steps."""

    def __init__(self, folder: Folder, kill: Kill) -> None:
        self._folder, self._kill = folder, kill

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._folder, name)
        return lambda *arguments: self._kill.step(lambda: operation(*arguments))


class SinkOf(FileSink):
    """A FileSink on another folder."""

    def __init__(self, folder: Any) -> None:
        super().__init__("memory")
        self.folder = folder

    def open_folder(self) -> Folder:
        return self.folder


def rows_in(files: dict[str, bytes]) -> list[tuple[Any, ...]]:
    assert not [name for name in files if name.startswith(".")], "no pending file stays"
    lines = b"".join(files.values()).splitlines()
    return sorted((tuple(json.loads(line).values()) for line in lines), key=lambda values: values[1])


def on_disk(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("crash", [False, True], ids=["process", "machine"])
def test_each_row_is_there_once_wherever_it_is_killed(crash: bool) -> None:
    for kill in all_kills(lambda kill: SinkOf(KilledFolder(MemoryFolder(), kill))):
        memory = MemoryFolder()

        def make(kill: Kill, memory: MemoryFolder = memory) -> Sink:
            return SinkOf(KilledFolder(memory, kill))

        run(make, kill, memory.crash if crash else lambda: None)
        assert rows_in(memory.files) == ROWS, f"killed at step {kill.steps}"


def test_the_same_in_a_real_folder(tmp_path: Path) -> None:
    kills = all_kills(lambda kill: SinkOf(KilledFolder(LocalFolder(tmp_path / "counted"), kill)))
    for at, kill in enumerate(kills):
        if at % 12:
            continue  # real syncs take their time

        def make(kill: Kill, path: Path = tmp_path / str(at)) -> Sink:
            return SinkOf(KilledFolder(LocalFolder(path), kill))

        run(make, kill)
        assert rows_in(on_disk(tmp_path / str(at))) == ROWS, f"killed at step {kill.steps}"


def prepared(path: Path, **options: Any) -> FileSink:
    sink = FileSink(path, **options)
    sink.prepare(context())
    return sink


def handle_of(sink: Sink, number: int, *rows: tuple[str, int]) -> Any:
    for values in rows:
        sink.execute(row(*values), None)  # type: ignore[arg-type]
    return sent(sink.pre_commit(number))


def test_a_file_gets_its_name_at_the_commit(tmp_path: Path) -> None:
    sink = prepared(tmp_path / "new" / "folder")
    handle = handle_of(sink, 3, ("ä", 1), ("b", 2))
    content = '{"key": "ä", "n": 1}\n{"key": "b", "n": 2}\n'.encode()
    assert on_disk(tmp_path / "new" / "folder") == {".pending-3-sink-5.jsonl": content}
    sink.commit(handle)
    sink.commit(handle)
    assert on_disk(tmp_path / "new" / "folder") == {"sink-5-3.jsonl": content}


def test_the_files_of_a_failed_snapshot_are_committed_with_the_next(tmp_path: Path) -> None:
    sink = prepared(tmp_path)
    sink.abort(handle_of(sink, 1, ("a", 1)))
    handle = handle_of(sink, 2)
    assert handle == {"task": 5, "numbers": [1]}
    sink.commit(handle)
    assert list(on_disk(tmp_path)) == ["sink-5-1.jsonl"]


def test_after_a_restore_pending_files_of_later_numbers_are_removed_and_no_others(tmp_path: Path) -> None:
    sink = prepared(tmp_path)
    for number in (1, 2, 3):
        handle_of(sink, number, ("a", number))
    others = [".pending-3-other-5.jsonl", ".pending-x-sink-5.jsonl", ".pending-9-sink-x.jsonl", "sink-5-9.jsonl"]
    for name in others:
        (tmp_path / name).touch()
    prepared(tmp_path).restored(2)
    pending = [".pending-1-sink-5.jsonl", ".pending-2-sink-5.jsonl"]
    assert sorted(on_disk(tmp_path)) == sorted(pending + others)
    prepared(tmp_path).restored(None)
    assert sorted(on_disk(tmp_path)) == sorted(others)


def test_a_file_that_is_lost_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    sink = prepared(tmp_path)
    handle = handle_of(sink, 1, ("a", 1))
    (tmp_path / ".pending-1-sink-5.jsonl").unlink()
    with pytest.raises(SinkError, match=r"\.pending-1-sink-5\.jsonl is lost: neither it nor sink-5-1\.jsonl is in"):
        sink.commit(handle)


def test_a_file_of_another_run_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "sink-5-1.jsonl").write_bytes(b"other")
    sink = prepared(tmp_path)
    with pytest.raises(SinkError, match=r"sink-5-1\.jsonl exists already\. The folder has files of another run"):
        handle_of(sink, 1, ("a", 1))
    handle = handle_of(sink, 2)  # the rows were kept
    (tmp_path / "sink-5-2.jsonl").write_bytes(b"other")
    with pytest.raises(SinkError, match="both exist"):
        sink.commit(handle)
    assert (tmp_path / "sink-5-1.jsonl").read_bytes() == (tmp_path / "sink-5-2.jsonl").read_bytes() == b"other"


def test_another_format(tmp_path: Path) -> None:
    class Lines(FileSink):
        suffix = ".txt"

        def encode(self, tup: Tuple) -> bytes:
            return f"{tup['key']}={tup['n']}\n".encode()

    sink = Lines(tmp_path, prefix="counts")
    sink.prepare(context())
    sink.commit(handle_of(sink, 1, ("a", 1), ("b", 2)))
    assert on_disk(tmp_path) == {"counts-5-1.txt": b"a=1\nb=2\n"}


def test_a_sink_that_is_not_prepared_says_so(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"prepare\(\) must call super\(\)\.prepare\(context\)"):
        FileSink(tmp_path).restored(None)


def test_a_file_and_its_name_are_durable_when_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[dict[str, bytes]] = []
    monkeypatch.setattr(file_sink, "sync_folder", lambda path: synced.append(on_disk(Path(path))))
    folder = LocalFolder(tmp_path)
    folder.write("a", [b"1", b"2"])
    assert synced == [{"a": b"12"}]
    folder.rename("a", "b")
    folder.sync()
    assert synced[1:] == [{"b": b"12"}]
