"""When all of a job is there: the manifest and `_SUCCESS`; and what a folder that is whole lets happen to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyFailedError
from aiostorm.spark import ParquetSinkBolt, SinkError
from aiostorm.spark.sinks.parquet_manifest import Manifest, OutputGuard, finish, generation_name, read_manifest, receipt
from aiostorm.spark.sinks.parquet_store import FileStore, open_store

from .parquet_parts import Chunks, chunk, files, pa, read, rows_of, run, run_whole
from .test_parquet_sink import Changes, Rows, Untracked, built

BOTH = ["_SUCCESS", "_manifest.json"]


def manifest_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "_manifest.json").read_text())
    return found


class Other(Chunks):
    """Chunks of another day: the same names, other rows."""

    def batch(self, number: int) -> Any:
        made = chunk(number)
        return made.set_column(2, "one", pa.array([2] * made.num_rows)).replace_schema_metadata(made.schema.metadata)


class Stream(Chunks):
    """Chunks of a stream, one a batch, from batch `first` on."""

    first = 0

    def batch(self, number: int) -> Any:
        batch = str(self.first + number).encode()
        names = {b"aiostorm.chunk": b"clicks/b%s/0/0" % batch, b"aiostorm.batch": batch}
        return chunk(self.first + number).replace_schema_metadata(names)


class LaterStream(Stream):
    first = 3


@pytest.mark.parametrize("by", [(), "word"])
async def test_a_complete_job_writes_its_manifest(tmp_path: Path, by: Any) -> None:
    assert await run_whole(built(Chunks(4), ParquetSinkBolt(str(tmp_path), partition_by=by), tasks=3)) == []
    manifest = manifest_of(tmp_path)
    names = [file["name"] for file in manifest["files"]]
    assert sorted(names + BOTH) == files(tmp_path)
    assert (manifest["rows"], manifest["topology"], manifest["component"]) == (80, "parquet", "sink")
    assert sum(file["rows"] for file in manifest["files"]) == 80
    assert [file["bytes"] for file in manifest["files"]] == [(tmp_path / name).stat().st_size for name in names]
    assert manifest["bytes"] == sum(file["bytes"] for file in manifest["files"])
    assert (tmp_path / "_SUCCESS").read_bytes() == b""
    assert not list((tmp_path / ".aiostorm-tmp").iterdir())
    assert read(tmp_path) == rows_of(0, 1, 2, 3), "readers leave the two out"


async def test_rows_that_waited_for_their_file_to_the_end_are_in_it(tmp_path: Path) -> None:
    assert await run_whole(built(Untracked(2), ParquetSinkBolt(str(tmp_path), flush_s=500), tasks=1)) == []
    assert manifest_of(tmp_path)["rows"] == 40


async def test_a_job_that_lost_rows_writes_no_manifest(tmp_path: Path) -> None:
    await run_whole(built(Changes(3, retries=0), ParquetSinkBolt(str(tmp_path)), tasks=1))
    assert read(tmp_path) == rows_of(0, 2)
    assert not [name for name in files(tmp_path) if name in BOTH]


async def test_a_job_that_was_killed_or_has_no_end_writes_no_manifest(tmp_path: Path) -> None:
    await run(built(Chunks(3), ParquetSinkBolt(str(tmp_path))))
    async with LocalCluster() as cluster:
        running = await cluster.submit("p", built(Chunks(3), ParquetSinkBolt(str(tmp_path))).create_topology())
        await running.wait_finished(timeout_s=600)
        await running.kill(wait_s=0)
    assert not [name for name in files(tmp_path) if name in BOTH]


async def test_a_sink_with_a_folder_elsewhere_is_a_problem_of_the_topology(tmp_path: Path) -> None:
    class Elsewhere(ParquetSinkBolt):
        def completed(self, completion: Any) -> None:
            self.path = str(tmp_path / "not here")
            super().completed(completion)

    problems = await run_whole(built(Chunks(2), Elsewhere(str(tmp_path / "there")), tasks=2))
    assert len(problems) == 1
    assert "bolt 'sink': " in problems[0]
    assert "not here is not marked as complete: 2 of 2 tasks have not left a receipt" in problems[0]


async def test_the_same_data_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        assert await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path)))) == []
        manifest = manifest_of(tmp_path)
    assert manifest["rows"] == 60
    assert manifest["generation"] == 1


@pytest.mark.parametrize("other", [Other, Rows])
async def test_other_data_is_refused_and_what_is_there_stays(tmp_path: Path, other: Any) -> None:
    await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path))))
    before = files(tmp_path)
    with pytest.raises(TopologyFailedError, match=r"holds all that an earlier run of 'parquet' .*overwrite=True"):
        await run_whole(built(other(3), ParquetSinkBolt(str(tmp_path), flush_s=0.1)))
    assert files(tmp_path) == before
    assert read(tmp_path) == rows_of(0, 1, 2)


async def test_overwriting_removes_what_the_manifest_lists_and_nothing_else(tmp_path: Path) -> None:
    await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path), partition_by="word")))
    (tmp_path / "notes.txt").write_text("mine")
    old = [file["name"] for file in manifest_of(tmp_path)["files"]]
    for generation in (2, 3):
        sink = ParquetSinkBolt(str(tmp_path), partition_by="word", overwrite=True)
        assert await run_whole(built(Other(2), sink)) == []
        assert manifest_of(tmp_path)["generation"] == generation
        assert sorted([file["name"] for file in manifest_of(tmp_path)["files"]] + BOTH + ["notes.txt"]) == files(
            tmp_path
        )
        assert not set(old) & set(files(tmp_path))
        assert [row["one"] for row in read(tmp_path, exclude_invalid_files=True)] == [2] * 40


async def test_overwriting_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path))))
    old = [file["name"] for file in manifest_of(tmp_path)["files"]]
    await run_whole(built(Changes(3, retries=0), ParquetSinkBolt(str(tmp_path), overwrite=True), tasks=1))
    assert set(old) <= set(files(tmp_path))
    assert not (tmp_path / "_SUCCESS").exists(), "it is half old, half new"
    assert await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path), overwrite=True))) == []
    assert read(tmp_path) == rows_of(0, 1, 2)


async def test_overwriting_with_nothing_leaves_what_was_there(tmp_path: Path) -> None:
    """As a run does whose progress says that an earlier one has done all."""
    await run_whole(built(Chunks(3), ParquetSinkBolt(str(tmp_path))))
    assert await run_whole(built(Chunks(0), ParquetSinkBolt(str(tmp_path), overwrite=True))) == []
    assert read(tmp_path) == rows_of(0, 1, 2)
    assert manifest_of(tmp_path)["rows"] == 60


async def test_a_stream_goes_on_where_it_was_and_another_does_not(tmp_path: Path) -> None:
    await run_whole(built(Stream(3), ParquetSinkBolt(str(tmp_path))))
    assert manifest_of(tmp_path)["streams"] == {"clicks": 2}
    assert await run_whole(built(LaterStream(2), ParquetSinkBolt(str(tmp_path)))) == []
    assert manifest_of(tmp_path)["streams"] == {"clicks": 4}
    assert read(tmp_path) == rows_of(0, 1, 2, 3, 4)

    class Again(Stream):  # from batch 0 on, with other rows: another checkpoint
        def batch(self, number: int) -> Any:
            made = super().batch(number)
            return chunk(9).replace_schema_metadata(made.schema.metadata)

    with pytest.raises(TopologyFailedError, match="holds all that an earlier run"):
        await run_whole(built(Again(1), ParquetSinkBolt(str(tmp_path))))


@pytest.fixture(params=["local", "memory", "arrow"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "local":
        return open_store(str(tmp_path / "d"), "token")
    pytest.importorskip("fsspec")
    if request.param == "memory":
        return open_store(f"memory://{tmp_path.name}/d", "token")
    from pyarrow.fs import LocalFileSystem

    return open_store(str(tmp_path / "d"), "token", LocalFileSystem())


def test_stores_do_what_is_asked_of_them(store: FileStore) -> None:
    assert store.read("a=1/x", 10) is None
    store.remove("a=1/x")
    store.replace("a=1/x", b"one")
    store.replace("a=1/x", b"two!")
    store.replace(".hidden/y", b"")
    assert store.read("a=1/x", 4) == b"two!"
    with pytest.raises(SinkError, match="larger than 3 bytes"):
        store.read("a=1/x", 3)
    assert store.size("a=1/x") == 4
    with store.open("a=1/x") as file:
        assert file.read() == b"two!"
    assert store.names() == ["a=1/x"]
    store.remove("a=1/x")
    assert store.read("a=1/x", 10) is None


def test_a_job_is_marked_in_each_store(store: FileStore) -> None:
    from aiostorm.spark.sinks.parquet_files import encoded

    with pytest.raises(SinkError, match="1 of 1 tasks have not left a receipt"):
        finish(store, "t", "c", 1, overwrite=False)
    data = encoded(pa.Table.from_batches([chunk(0)]), {}, None, {})
    store.put("k=1/part-x.parquet", data)
    store.replace(receipt("t", "c", 0), b"{}")
    manifest = finish(store, "t", "c", 1, overwrite=False)
    assert [(file.name, file.rows, file.bytes) for file in manifest.files] == [("k=1/part-x.parquet", 20, len(data))]
    assert read_manifest(store) == manifest
    assert store.read("_SUCCESS", 1) == b""


def test_a_manifest_that_is_not_ours_or_leads_elsewhere_is_refused() -> None:
    def parsed(**changed: Any) -> Manifest:
        found = json.loads(Manifest("t", "c", 1, ()).to_bytes()) | changed
        return Manifest.parsed(json.dumps(found).encode(), "/d")

    assert parsed() == Manifest("t", "c", 1, ())
    outside = ("../part-x.parquet", "/part-x.parquet", "a/../../part-x.parquet", r"a\..\part-x.parquet")
    for name in (*outside, "notes.txt"):
        with pytest.raises(SinkError, match="not written by this version"):
            parsed(files=[{"name": name, "rows": 1, "bytes": 1}])
    with pytest.raises(SinkError, match="version 2"):
        parsed(version=2)
    with pytest.raises(SinkError, match="remove that file"):
        Manifest.parsed(b"[]", "/d")


def test_the_gate_names_files_of_the_next_generation(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), "token")
    assert OutputGuard(store, overwrite=True).admit("part-a.parquet", {}) == "part-a.parquet"
    store.replace("_manifest.json", Manifest("t", "c", 4, ()).to_bytes())
    assert OutputGuard(store, overwrite=True).admit("k=1/part-a.parquet", {}) == generation_name(
        "k=1/part-a.parquet", 5
    )
    assert generation_name("part-a.parquet", 5) == "part-a-g5.parquet"
