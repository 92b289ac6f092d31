"""One list of packages, kept in six places: folders, links, the wheel's map, ruff, the layers, `__all__`."""

from __future__ import annotations

import ast
import os
import re
from fnmatch import fnmatch

import pytest

from .source import PACKAGE, ROOT, files, git, in_git, packages, public_names, pyproject, source, sub_packages

DATA_FOLDERS = ("ui/static", "ui/vendor")
"""Folders in a package without Python: `[tool.setuptools.package-data]` names them."""

HINT = "A new package is entered in every place that CONTRIBUTING.md lists under 'A new package'."


def test_there_are_packages():
    assert "actors" in packages()


def test_every_top_level_folder_is_a_package_or_known():
    without = [name for name in packages() if f"{name}/__init__.py" not in files()]
    assert not without, f"{without}: a folder at the top is a package, which has an __init__.py. {HINT}"


def test_map_of_the_wheel_is_the_packages():
    table = pyproject()["tool"]["setuptools"]
    folders = [PACKAGE, *packages(), *sub_packages()]
    expected = {
        ".".join([PACKAGE, *folder.removeprefix(PACKAGE).strip("/").split("/")]).rstrip("."): folder
        for folder in folders
    }
    assert table["package-dir"] == expected, f"[tool.setuptools.package-dir] is not the packages. {HINT}"
    assert table["packages"] == sorted(expected), (
        f"[tool.setuptools] packages is not all packages, sorted: the wheel lacks what is missing. {HINT}"
    )


def test_links_are_the_packages():
    links = {name: os.readlink(ROOT / name) for name in files() if (ROOT / name).is_symlink()}
    expected = {f"{PACKAGE}/{package}": f"../{package}" for package in packages()}
    assert links == expected, f"make the links with: cd {PACKAGE} && ln -s ../<package> <package>. {HINT}"


def test_links_are_committed_as_links():
    if not in_git():
        pytest.skip("no git here: modes are looked at in a checkout")
    modes = {}
    for line in git("ls-files", "--stage", PACKAGE).splitlines():
        mode, _, _, name = re.split(r"\s+", line, maxsplit=3)
        modes[name] = mode
    links = {name: mode for name, mode in modes.items() if mode == "120000"}
    assert sorted(links) == [f"{PACKAGE}/{package}" for package in packages()], (
        f"git must hold a link (mode 120000) per package. On Windows set core.symlinks=true before the clone. {HINT}"
    )


def test_ruff_reads_each_package_once():
    excluded = pyproject()["tool"]["ruff"]["extend-exclude"]
    assert sorted(excluded) == [f"{PACKAGE}/{package}" for package in packages()], (
        f"[tool.ruff] extend-exclude must name every link, or ruff reads the package twice. {HINT}"
    )


def test_every_package_has_a_layer():
    (contract,) = [c for c in pyproject()["tool"]["importlinter"]["contracts"] if c.get("containers") == [PACKAGE]]
    assert contract["exhaustive"] is True
    layers = [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]
    named = sorted(name for layer in layers for name in layer if name != "cli")
    assert named == list(packages()), f"[tool.importlinter] layers must name every package, each on one layer. {HINT}"
    assert layers[-2:] == [["actors"], ["runtime"]], (
        "runtime is the ground floor: it knows no Storm noun and imports no package"
    )


@pytest.mark.parametrize("package", [*packages(), *sub_packages()])
def test_an_init_describes_the_package_and_lists_its_names(package: str):
    init = source(f"{package}/__init__.py")
    assert ast.get_docstring(init.tree), f"{package}/__init__.py: begin with a docstring, the concept in one line"
    names = public_names(package)
    assert names is not None, f"{package}/__init__.py: needs `__all__ = [...]`, a plain list of the names it gives"
    assert len(names) == len(set(names)), f"{package}/__init__.py: a name stands twice in __all__"
    private = [name for name in names if name.startswith("_")]
    assert not private, f"{package}/__init__.py: gives private names {private}"


def test_test_folders_are_not_taken_for_packages():
    assert "tests/__init__.py" in files(), "without it pytest imports tests/topology/ as the module `topology`"


def test_packages_have_one_level_of_sub_packages():
    nested = [
        name
        for name in files()
        if name.split("/")[0] in packages()
        and name.count("/") > 1
        and name.rpartition("/")[0] not in sub_packages()
        and not (name.rpartition("/")[0] in DATA_FOLDERS and not name.endswith(".py"))
    ]
    assert not nested, (
        f"{nested}: a folder inside a package is a sub-package with an __init__.py and no folder inside: "
        "the map would leave it out of the wheel"
    )


def test_aiostorm_contains_only_names_and_the_command_line():
    for name in files():
        top, _, rest = name.partition("/")
        if top == PACKAGE and not (ROOT / name).is_symlink():
            assert rest in ("__init__.py", "__main__.py", "py.typed") or fnmatch(rest, "cli/*.py"), (
                f"{name}: aiostorm/ is public names and the command line. What packages share is in a package"
            )
