"""One list of rooms, kept in six places: folders, links, the wheel's map, ruff, the layers, the doors."""

from __future__ import annotations

import ast
import os
import re
from fnmatch import fnmatch

import pytest

from .source import FRONT_DOOR, ROOT, door_names, files, git, in_git, pyproject, rooms, source, sub_packages

HINT = "A new room is entered in every place that CONTRIBUTING.md lists under 'A new room'."


def test_there_are_rooms():
    assert "actors" in rooms()


def test_every_top_level_folder_is_a_room_or_known():
    without = [name for name in rooms() if f"{name}/__init__.py" not in files()]
    assert not without, f"{without}: a folder at the top is a room, and a room has an __init__.py (its door). {HINT}"


def test_map_of_the_wheel_is_the_rooms():
    table = pyproject()["tool"]["setuptools"]
    folders = [FRONT_DOOR, *rooms(), *sub_packages()]
    expected = {
        ".".join([FRONT_DOOR, *folder.removeprefix(FRONT_DOOR).strip("/").split("/")]).rstrip("."): folder
        for folder in folders
    }
    assert table["package-dir"] == expected, f"[tool.setuptools.package-dir] is not the rooms. {HINT}"
    assert table["packages"] == sorted(expected), (
        f"[tool.setuptools] packages is not the rooms, sorted: the wheel leaves out what is missing, silently. {HINT}"
    )


def test_links_are_the_rooms():
    links = {name: os.readlink(ROOT / name) for name in files() if (ROOT / name).is_symlink()}
    expected = {f"{FRONT_DOOR}/{room}": f"../{room}" for room in rooms()}
    assert links == expected, f"make the links with: cd {FRONT_DOOR} && ln -s ../<room> <room>. {HINT}"


def test_links_are_committed_as_links():
    if not in_git():
        pytest.skip("no git here: modes are looked at in a checkout")
    modes = {}
    for line in git("ls-files", "--stage", FRONT_DOOR).splitlines():
        mode, _, _, name = re.split(r"\s+", line, maxsplit=3)
        modes[name] = mode
    links = {name: mode for name, mode in modes.items() if mode == "120000"}
    assert sorted(links) == [f"{FRONT_DOOR}/{room}" for room in rooms()], (
        f"git must hold a link (mode 120000) per room. On Windows set core.symlinks=true before the clone. {HINT}"
    )


def test_ruff_reads_each_room_once():
    excluded = pyproject()["tool"]["ruff"]["extend-exclude"]
    assert sorted(excluded) == [f"{FRONT_DOOR}/{room}" for room in rooms()], (
        f"[tool.ruff] extend-exclude must name every link, or ruff reads the room twice. {HINT}"
    )


def test_every_room_has_a_layer():
    (contract,) = [c for c in pyproject()["tool"]["importlinter"]["contracts"] if c["containers"] == [FRONT_DOOR]]
    assert contract["exhaustive"] is True
    layers = [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]
    named = sorted(name for layer in layers for name in layer if name != "cli")
    assert named == list(rooms()), f"[tool.importlinter] layers must name every room, each on one layer. {HINT}"
    assert layers[-2:] == [["actors"], ["runtime"]], (
        "runtime is the ground floor: it knows no Storm noun and imports no room"
    )


@pytest.mark.parametrize("room", [*rooms(), *sub_packages()])
def test_door_says_what_the_room_is_and_what_it_gives(room: str):
    door = source(f"{room}/__init__.py")
    assert ast.get_docstring(door.tree), f"{room}/__init__.py: begin with a docstring, the concept in one line"
    names = door_names(room)
    assert names is not None, f"{room}/__init__.py: needs `__all__ = [...]`, a plain list of the names it gives"
    assert len(names) == len(set(names)), f"{room}/__init__.py: a name stands twice in __all__"
    private = [name for name in names if name.startswith("_")]
    assert not private, f"{room}/__init__.py: gives private names {private}"


def test_test_folders_are_not_taken_for_rooms():
    assert "tests/__init__.py" in files(), "without it pytest imports tests/topology/ as the module `topology`"


def test_rooms_have_one_level_of_sub_packages():
    nested = [
        name
        for name in files()
        if name.split("/")[0] in rooms() and name.count("/") > 1 and name.rpartition("/")[0] not in sub_packages()
    ]
    assert not nested, (
        f"{nested}: a folder inside a room is a sub-package with an __init__.py (its door), and has no folder inside: "
        "the map would leave it out of the wheel"
    )


def test_front_door_holds_nothing_but_the_front_door():
    for name in files():
        top, _, rest = name.partition("/")
        if top == FRONT_DOOR and not (ROOT / name).is_symlink():
            assert rest in ("__init__.py", "__main__.py", "py.typed") or fnmatch(rest, "cli/*.py"), (
                f"{name}: the front door is imports and the command line. What rooms share is in a room"
            )
