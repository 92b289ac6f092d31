"""Archive: the same files make the same bytes, and what is hostile, damaged or too large is refused without a trace."""

from __future__ import annotations

import os
import random
import stat
import struct
import threading
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.code import ArchiveError, add_files, archive, archive_of, names, pack, unpack


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def project(folder: Path) -> Path:
    for name, text in {
        "words/__init__.py": "topology = 1\n",
        "words/data.txt": "x" * 5000,
        "main.py": "import words\n",
        "env/__init__.py": "a package of this name is code",
        "words/__pycache__/a.pyc": "cache",
        "node_modules/a/a.js": "",
        "old.pyc": "cache",
        ".git/config": "secret",
        ".env": "PASSWORD=1",
        "here/pyvenv.cfg": "home = /usr",
        "here/lib/site.py": "",
        "conda/conda-meta/history": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def made(*entries: tuple[str, bytes], mode: int = stat.S_IFREG | 0o644) -> bytes:
    found = BytesIO()
    with zipfile.ZipFile(found, "w") as opened:
        for name, data in entries:
            entry = zipfile.ZipInfo(name)
            entry.filename = name  # the constructor cuts some
            entry.external_attr = mode << 16
            opened.writestr(entry, data)
    return found.getvalue()


def refused(data: bytes, folder: Path, match: str) -> None:
    """It is refused when it is submitted and when it is unpacked, and nothing is left."""
    folder.mkdir(exist_ok=True)
    (folder / "a.zip").write_bytes(data)
    with pytest.raises(ArchiveError, match=match):
        archive_of(folder / "a.zip")
    with pytest.raises(ArchiveError, match=match):
        unpack(data, folder / "out")
    assert [path.name for path in folder.iterdir()] == ["a.zip"]


def test_a_folder_comes_out_as_it_went_in(tmp_path: Path) -> None:
    unpack(pack(project(tmp_path / "in")), tmp_path / "out")
    assert tree(tmp_path / "out") == {
        "env/__init__.py": b"a package of this name is code",
        "main.py": b"import words\n",
        "words/__init__.py": b"topology = 1\n",
        "words/data.txt": b"x" * 5000,
    }
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out" / "words").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out" / "main.py").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = project(tmp_path / "in"), project(tmp_path / "elsewhere")
    for path in second.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o755)
    assert pack(first) == pack(second)
    (second / "main.py").write_text("import words \n")
    assert pack(first) != pack(second)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=50), min_size=1, max_size=6))
def test_any_files(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "in").mkdir()
    for name, data in files.items():
        (folder / "in" / name).write_bytes(data)
    unpack(pack(folder / "in"), folder / "out")
    assert tree(folder / "out") == files


def test_a_zip_and_a_wheel_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(data := made(("a/", b""), ("a/__init__.py", b"1"), ("b.py", b"")))
    assert archive_of(tmp_path / "a-1-py3-none-any.whl") == data
    unpack(data, tmp_path / "out")
    assert tree(tmp_path / "out") == {"a/__init__.py": b"1", "b.py": b""}
    assert archive_of(project(tmp_path / "in")) == pack(tmp_path / "in")


def test_additional_files_stand_beside_the_modules(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    one, other = tmp_path / "a" / "prices.csv", tmp_path / "x.py"
    one.write_bytes(b"y" * 5000)
    other.write_bytes(b"1")
    both = {"prices.csv": b"y" * 5000, "x.py": b"1"}
    wheel = made(("w/", b""), ("w/__init__.py", b"1"))
    for number, (before, files) in enumerate(
        ((pack(project(tmp_path / "in")), tree(tmp_path / "in")), (wheel, {"w/__init__.py": b"1"}), (None, {}))
    ):
        data = add_files(before, [one, other])
        assert data == add_files(before, [other, one]), "their order does not matter"
        (tmp_path / "x.zip").write_bytes(data)
        assert archive_of(tmp_path / "x.zip") == data, "it is an archive that can be submitted"
        unpack(data, tmp_path / f"out{number}")
        kept = files if before is wheel or before is None else tree_of(pack(tmp_path / "in"), tmp_path / "again")
        assert tree(tmp_path / f"out{number}") == {**kept, **both}


def tree_of(data: bytes, folder: Path) -> dict[str, bytes]:
    unpack(data, folder)
    return tree(folder)


def test_additional_files_that_there_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(("main.py", b"1"), ("words/data.txt", b""))
    for name in ("main.py", "Main.py", "words", ".env", "a b", "ä.txt", "-x", "x.", "other", "a" * 129):
        (tmp_path / name).write_bytes(b"0")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "other").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for wrong, match in (
        (["main.py"], "additional files has 'main.py', which is there twice: leave one out"),
        (["Main.py"], "'main.py' and 'Main.py', which are one name on some systems"),
        (["words"], "has 'words', which is a file and a folder: leave one out"),
        (["other", "b/other"], "has 'other', which is there twice"),
        (["b"], "b is no file: a folder is code"),
        (["pipe"], "pipe is no file"),
        (["none"], "none is not there"),
        *(([name], "cannot be that of an additional file: it has 1 to 128") for name in (".env", "a b", "ä.txt")),
        *(([name], "cannot be that of an additional file") for name in ("-x", "x.", "a" * 129)),
    ):
        with pytest.raises(ArchiveError, match=match):
            add_files(before, [tmp_path / each for each in wrong])
    with pytest.raises(ArchiveError, match="is no zip and no wheel"):
        add_files(b"no zip", [tmp_path / "other"])
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1000)
    (tmp_path / "large").write_bytes(b"x" * 999)
    with pytest.raises(ArchiveError, match="is too large"):
        add_files(made(("main.py", b"12")), [tmp_path / "large"])
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 10_000)
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(1001))
    with pytest.raises(ArchiveError, match="is too large"):
        add_files(None, [tmp_path / "large"])


def test_what_cannot_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArchiveError, match="none cannot be read: No such file"):
        archive_of(tmp_path / "none")
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(ArchiveError, match="text is no zip and no wheel"):
        archive_of(tmp_path / "text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArchiveError, match="empty has no files to submit"):
        archive_of(tmp_path / "empty")
    folder = project(tmp_path / "in")
    for target in ("/etc/passwd", "words", "/nowhere"):
        (folder / "link").symlink_to(target)
        with pytest.raises(ArchiveError, match="link is a link: put what it leads to in its place"):
            pack(folder)
        (folder / "link").unlink()
    (folder / ".link").symlink_to("/etc/passwd")  # what is left out may be anything
    (folder / "Main.py").write_text("")
    with pytest.raises(ArchiveError, match="which are one name on some systems"):
        pack(folder)
    (folder / "Main.py").unlink()
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 5000)
    with pytest.raises(ArchiveError, match="in is too large: an archive has at most 256 MiB"):
        pack(folder)
    monkeypatch.setattr(names, "MAX_FILES", 2)
    with pytest.raises(ArchiveError, match="has more than 2 files and folders: submit the code only"):
        pack(folder)


def test_an_archive_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path / "in")
    (folder / "noise").write_bytes(random.Random(1).randbytes(4000))
    data = pack(folder)
    (tmp_path / "a.zip").write_bytes(data)
    monkeypatch.setattr(archive, "MAX_BYTES", 3000)
    for what in (folder, tmp_path / "a.zip"):
        with pytest.raises(ArchiveError, match="is too large"):
            archive_of(what)
    with pytest.raises(ArchiveError, match="is too large"):
        unpack(data, tmp_path / "out")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(project(tmp_path / "in") / "pipe")
    unpack(pack(tmp_path / "in"), tmp_path / "out")
    assert "pipe" not in tree(tmp_path / "out")


ELSEWHERE = (
    "../evil",
    "..",
    "../",
    "a/../../evil",
    "a/../b",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "/etc/evil",
    "/",
    "//host/share",
    "a//b",
    "a/b//",
    "",
    "a\\b",
    "..\\evil",
    "C:\\evil",
    "C:evil",
    "c:/evil",
    "a:stream",
    "a\x01b",
    "a\nb",
    "a\x7f",
    "a<b",
    "a>b",
    'a"b',
    "a|b",
    "a?",
    "a*",
    "a.",
    "a ",
    "a./b",
    "...",
    "x" * 256,
    "é" * 200,
    "x/" * 41 + "x",
    "/".join(["y" * 60] * 20),
)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    refused(made(("fine.py", b"x"), (name, b"evil")), tmp_path / "x", "has a file named")


@pytest.mark.parametrize("name", ["../", "a/../", "/", "a//", "a\\b/", "C:/"])
def test_a_folder_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    refused(made(("fine.py", b"x"), (name, b"")), tmp_path / "x", "has a file named")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("entries", "match"),
    [
        (("a.py", "a.py"), r"'a\.py', which is there twice"),
        (("a.py", "A.py"), r"'a\.py' and 'A\.py', which are one name"),
        (("A/x.py", "a/y.py"), "'A' and 'a', which are one name"),
        (("stra\xdfe.py", "strasse.py"), "one name on some systems"),
        (("e\u0301.py", "\xe9.py"), "one name on some systems"),
        (("a", "a/b"), "'a', which is a file and a folder"),
        (("a/b", "a"), "'a', which is a file and a folder"),
        (("a/", "a"), "'a', which is a file and a folder"),
    ],
)
def test_names_that_are_one(tmp_path: Path, entries: tuple[str, ...], match: str) -> None:
    refused(made(*((name, b"") for name in entries)), tmp_path / "x", match)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFBLK, stat.S_IFCHR])
def test_a_link_or_a_device(tmp_path: Path, kind: int) -> None:
    refused(made(("it", b"/etc/passwd"), mode=kind | 0o777), tmp_path / "x", "has 'it', a link or a special file")


def test_other_ways_to_compress(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        found = BytesIO()
        with zipfile.ZipFile(found, "w", method) as opened:
            opened.writestr("a.py", "1")
        refused(found.getvalue(), tmp_path / str(method), "compressed by other than deflate")
    data = bytearray(made(("a.py", b"1")))
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    refused(bytes(data), tmp_path / "x", "encrypted")


def bomb() -> bytes:
    found = BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros", bytes(1_000_000))
    return found.getvalue()


def test_an_archive_that_is_large_when_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 100_000)
    refused(bomb(), tmp_path / "x", "is too large")
    # One that says less than it has: what is counted is what comes out.
    lying = bomb().replace(struct.pack("<I", 1_000_000), struct.pack("<I", 10))
    with pytest.raises(ArchiveError):
        unpack(lying, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


def test_entries_that_share_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of files in which many are the same bytes: each counts."""
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 5_000_000)
    data = bomb()
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    entry, copies = data[start:end], b""
    for number in range(10):
        copies += entry.replace(b"zeros", b"zero%d" % number)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 10, 10, len(copies), start, 0)
    refused(data[:start] + copies + last, tmp_path / "x", "is too large")


def test_a_list_of_files_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_MAX_DIRECTORY_BYTES", 1000)
    refused(made(*((f"{i}.py", b"") for i in range(50))), tmp_path / "x", "list of files with 2,540 bytes")
    data = made(("a.py", b""))
    at = data.index(b"PK\5\6")
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    refused(data[:at] + locator + data[at:], tmp_path / "y", "list of files with")


def test_more_files_or_folders_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_FILES", 20)
    unpack(made(*((f"{i}.py", b"") for i in range(20))), tmp_path / "out")
    refused(made(*((f"{i}.py", b"") for i in range(21))), tmp_path / "x", "more than 20 files and folders")
    refused(made(("a/" * 20 + "x", b"")), tmp_path / "y", "more than 20 files and folders")


def test_no_files_at_all(tmp_path: Path) -> None:
    refused(made(), tmp_path / "x", "has no files")


def test_damage(tmp_path: Path) -> None:
    """Whatever bit is wrong: it is refused without a trace, or it is whole. (What is fetched has its hash, besides.)"""
    data = pack(project(tmp_path / "in"))
    for at in range(len(data)):
        wrong = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        out = tmp_path / f"out{at}"
        try:
            unpack(wrong, out)
        except ArchiveError:
            assert not out.exists()
        else:
            assert tree(out)
    for length in range(0, len(data), 5):
        with pytest.raises(ArchiveError):
            unpack(data[:length], tmp_path / "cut")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_code_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    data = pack(project(tmp_path / "in"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cache.pyc").write_text("of a run")
    unpack(data, tmp_path / "out")
    assert tree(tmp_path / "out") == {"cache.pyc": b"of a run"}


def test_several_unpack_the_same_at_once(tmp_path: Path) -> None:
    data = pack(project(tmp_path / "in"))
    failed: list[BaseException] = []

    def work() -> None:
        try:
            unpack(data, tmp_path / "out")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert len(tree(tmp_path / "out")) == 4
