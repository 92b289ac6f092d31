"""The folder of a cluster's daemons: who may use it, and what is in it."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiostorm.cluster.coordination import open_coordination
from aiostorm.cluster.home import MAX_PATH_BYTES, Home, HomeError
from aiostorm.runtime import LoopClock
from aiostorm.transport import Credentials


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="h") as folder:
        yield Path(folder)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"AIOSTORM_HOME": "/storm", "XDG_STATE_HOME": "/x"}, "/storm"),
        ({"XDG_STATE_HOME": "/x"}, "/x/aiostorm"),
        ({"XDG_STATE_HOME": "relative"}, str(Path.home() / ".local/state/aiostorm")),
        ({}, str(Path.home() / ".local/state/aiostorm")),
    ],
)
def test_where_it_is(environment: dict[str, str], path: str) -> None:
    assert str(Home.default(environment).path) == path


def test_it_is_private(place: Path) -> None:
    home = Home(place / "a" / "b")
    home.make()
    assert {mode(folder) for folder in (home.path, *home.path.iterdir())} == {0o700}
    credentials = home.make_credentials()
    assert mode(credentials) == 0o600
    first = Credentials.from_file(credentials).token
    assert Credentials.from_file(home.make_credentials()).token == first
    home.make()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_what_others_may_use_is_refused(place: Path) -> None:
    home = Home(place / "open")
    home.path.mkdir(0o755)
    with pytest.raises(HomeError, match="chmod 700"):
        home.make()


def test_a_path_that_is_too_long_for_sockets_is_refused(place: Path) -> None:
    with pytest.raises(HomeError, match="shorter"):
        Home(place / ("x" * MAX_PATH_BYTES)).make()


def test_a_folder_that_cannot_be_made_is_refused(place: Path) -> None:
    (place / "file").write_text("")
    with pytest.raises(HomeError, match="choose another one"):
        Home(place / "file" / "home").make()


def test_sockets_have_short_paths() -> None:
    home = Home(Path("/" + "h" * (MAX_PATH_BYTES - 1)))
    address = home.socket("ä" * 120, "worker-1000")
    assert len(address.removeprefix("unix:").encode()) <= 104
    assert home.socket("a", "parent") != home.socket("b", "parent")


@pytest.mark.parametrize("name", ["a b%23?", "daten-ü", "plain"])
async def test_its_store_can_be_opened_whatever_the_name_is(place: Path, name: str) -> None:
    home = Home(place / name)
    home.make()
    async with open_coordination(home.store_url, LoopClock()) as store:
        assert await store.children("/") == []
    assert (home.path / "cluster.db").exists()


def test_names_stay_inside() -> None:
    home = Home(Path("/h"))
    assert home.log("../x", "parent") == Path("/h/logs/..%2Fx/parent.log")
    assert home.slots("a/b") == Path("/h/supervisors/a%2Fb/slots")
