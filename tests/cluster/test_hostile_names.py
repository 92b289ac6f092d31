"""Whatever a name is, it leads to no file but those that belong to it: each hostile name, for all that takes a name.

It is refused, or is an id. What Python opens, makes, lists, renames and removes meanwhile is watched: all of it is in
one folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest

from aiostorm.cli.answering import logs_of
from aiostorm.cluster.access import Role, TokenFile, check_token_name, value_of
from aiostorm.cluster.code import ArchiveError, BlobError, Blobs, archive_of, unpack
from aiostorm.cluster.control.folder import own_socket
from aiostorm.cluster.home import Home
from aiostorm.cluster.logs import last_lines
from aiostorm.cluster.names import check_name
from aiostorm.cluster.nimbus import SUPERVISORS, TOPOLOGIES, name_in, path_of
from aiostorm.runtime import AiostormError, DirectoryStore

from ..ui.clusters import stored_cluster
from .hostile_names import NAMES
from .serving.served import place

REFUSED: Final = (AiostormError, ValueError)
SECRET: Final = "what only this user may read"  # noqa: S105 - it is looked for

_WATCHED: Final = {
    *("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink"),
    *("os.chmod", "os.truncate", "shutil.rmtree"),
}


class Watched:
    """Which paths are used, while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self.paths: set[str] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event in _WATCHED:
            given = arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1]
            self.paths |= {os.fsdecode(path) for path in given if isinstance(path, str | bytes | os.PathLike)}


WATCHED: Final = Watched()
sys.addaudithook(WATCHED)

_ELSEWHERE: Final = (
    *map(os.path.realpath, (sys.prefix, sys.base_prefix, Path(__file__).parents[2], "/usr", "/lib")),
    *(f"/proc/{os.getpid()}/stat", "/proc/mounts", "/proc/sys/kernel/random/boot_id", "/etc/mime.types"),
)
"""What Python itself reads: modules; and what is read of this machine."""


@pytest.fixture
def folder(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder that may be used. Beside it, and in the current folder, is what must not be read."""
    inside, current = short_path / "in", short_path / "now"
    for each in (inside, current):
        each.mkdir(mode=0o700)
    baits = [each / name for each in (short_path, current) for name in ("secret", "secret.log", "parent.log", "x.blob")]
    for bait in baits:
        bait.write_text(SECRET)
    monkeypatch.chdir(current)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(inside))
    before = _tree(short_path)
    WATCHED.paths.clear()
    WATCHED.on = True
    yield inside
    WATCHED.on = False
    used = {path for path in WATCHED.paths if not path.startswith(_ELSEWHERE) or ".." in path}
    outside = {path for path in used if not Path(os.path.realpath(path)).is_relative_to(inside)}
    assert not outside, f"used: {sorted(outside)[:5]}"
    assert _tree(short_path) == before
    assert {bait.read_text() for bait in baits} == {SECRET}


def _tree(top: Path) -> list[str]:
    return sorted(str(path) for path in top.rglob("*") if not path.is_relative_to(top / "in"))


def accepted(name: str) -> bool:
    """May a topology have it?"""
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def test_there_are_enough() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 200
    assert 0 < sum(map(accepted, NAMES)) < len(NAMES)


def test_folders_and_sockets_of_a_name_are_its_own(folder: Path) -> None:
    home = Home(folder / "h")
    home.make()
    found: dict[Path, str] = {}
    for name in NAMES:
        with contextlib.suppress(UnicodeEncodeError):
            socket = Path(own_socket(name))  # of `aiostorm run`, for any name
            assert socket.parent == folder / "aiostorm"
            assert len(os.fsencode(socket.name)) < 80
        if not accepted(name):
            continue
        for where in (home.logs(name), home.state(name), home.sockets(name), home.slots(name).parent):
            assert where.parent.parent == home.path, name
            assert found.setdefault(where, name) == name
            if len(where.name) <= 255:
                where.mkdir(mode=0o700)
        assert home.log(name, "parent").parent == home.logs(name)


def test_paths_of_the_store(folder: Path) -> None:
    for name in NAMES:
        for top in (TOPOLOGIES, SUPERVISORS):
            try:
                path = path_of(top, name)
            except ValueError:
                continue
            assert path.count("/") == 2
            assert path.isprintable()
            assert name_in(path.rpartition("/")[2]) == name


async def test_logs_of_nimbus(folder: Path) -> None:
    home = Home(folder / "h")
    home.make()
    home.logs("words").mkdir()
    home.log("words", "parent").write_text("runs\n")
    logs = logs_of(home)
    for name in NAMES:
        assert last_lines(home.logs("words"), name, 10) == ({} if name else {"parent": ["runs"]})
        assert await logs("words", name, 10) == ({} if name else {"parent": ["runs"]})
        with contextlib.suppress(*REFUSED):
            assert await logs(name, "parent", 10) == {}
            assert accepted(name)


def test_names_of_tokens(folder: Path) -> None:
    tokens = TokenFile(folder / "tokens")
    taken = []
    for name in NAMES:
        with contextlib.suppress(ValueError):
            taken.append(check_token_name(name))
        with pytest.raises(ValueError, match="there is no token"):
            tokens.revoke(name)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for name in taken)
    assert os.listdir(folder) == []


async def test_names_of_code_and_of_what_a_store_has(folder: Path) -> None:
    async with Blobs(str(folder / "blobs")) as blobs:
        for name in NAMES:
            for call in (blobs.fetch, blobs.has, blobs.remove):
                with pytest.raises(BlobError, match="is named by its SHA-256"):
                    await call(name)
    store = DirectoryStore(folder / "store")
    for name in NAMES:
        with contextlib.suppress(ValueError):
            assert await store.read(name) is None
            await store.write(name, b"x")
    assert all(path.parent == folder / "store" for path in (folder / "store").rglob("*"))
    await store.close()


def _zipped(name: str, mode: int) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        entry = zipfile.ZipInfo("x")
        entry.filename, entry.external_attr = name, mode << 16
        opened.writestr(entry, SECRET)
    return made.getvalue()


def test_names_in_archives(folder: Path) -> None:
    for number, name in enumerate(NAMES):
        try:
            data = _zipped(name, stat.S_IFREG | 0o777)
        except (UnicodeEncodeError, ValueError):  # no zip can have it
            continue
        target = folder / f"code-{number}"
        with contextlib.suppress(ArchiveError):
            unpack(data, target)
            files = [path for path in target.rglob("*") if path.is_file()]
            assert len(files) == (0 if name.endswith("/") else 1)
            assert all((file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (SECRET, 0o600) for file in files)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFBLK, stat.S_IFCHR])
def test_links_and_devices_in_archives(folder: Path, kind: int) -> None:
    for name in ("x", "../secret", "/etc/passwd"):
        (folder / "a.zip").write_bytes(data := _zipped(name, kind | 0o777))
        for refused in (lambda data=data: unpack(data, folder / "code"), lambda: archive_of(folder / "a.zip")):
            with pytest.raises(ArchiveError):
                refused()
    assert os.listdir(folder) == ["a.zip"]


@pytest.mark.sockets
async def test_requests_to_nimbus(folder: Path) -> None:
    home = Home(folder / "home")
    home.make()
    async with place(folder, logs=logs_of(home)) as made, made.link(made.tokens[Role.ADMIN]) as link:
        for name in NAMES:
            try:
                name.encode()
            except UnicodeEncodeError:  # no JSON of ours has it
                continue
            for request in (
                "find",
                "topology",
                "errors",
                "logs",
                "activate",
                "deactivate",
                "rebalance",
                "kill",
                "revoke",
            ):
                value, error = value_of(await link.ask(request, {"name": name}, again=False))
                assert value in (b"", b"null", b"{}", b"[]"), (request, name, value)
                assert SECRET not in str(error)
            given = {"name": name, "target": "words:topology", "workers": 1, "labels": [name]}
            value, error = value_of(await link.ask("submit", given, again=False))
            assert (error is None) <= accepted(name), name
        assert {role.value for role in made.tokens} == set(made.served.tokens.read().entries)


@pytest.mark.sockets
async def test_requests_to_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    async with stored_cluster() as page:
        page.log("orders", "parent").write_text("runs\n")
        (page.home.path / "secret.log").write_text(SECRET)
        for name in NAMES:
            encoded = quote(name, safe="", errors="surrogatepass")
            for path in (
                f"topologies/{encoded}",
                f"topologies/{encoded}/components/{encoded}",
                f"nodes/{encoded}",
                f"cluster/topologies/{encoded}/logs",
                f"cluster/topologies/{encoded}/logs/parent",
                f"cluster/topologies/orders/logs/{encoded}",
            ):
                url = aiohttp.client.URL(f"{page.dashboard.url}api/v1/{path}", encoded=True)
                async with page.session.get(url, allow_redirects=False) as response:
                    body = await response.text()
                    assert response.status in (400, 404), (path[:100], response.status)
                    assert SECRET not in body
        WATCHED.on = False  # the folder is removed, by names in it
