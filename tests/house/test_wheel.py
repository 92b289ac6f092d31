"""The wheel holds the package, whole, and nothing else. It is built once a session, from a copy of the tree."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from .source import PACKAGE, ROOT, files, packages, pyproject

FOUND_BY_SPARK = "pyspark_aiostorm.py"
"""The one module beside the package: Spark looks for `pyspark_*` at the top."""

_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def _what_a_build_reads() -> list[str]:
    tops = {PACKAGE, FOUND_BY_SPARK, *packages(), "pyproject.toml", "README.md", "LICENSE"}
    return [name for name in files() if name.split("/")[0] in tops]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The built wheel. The copy keeps links as links, as a clone does."""
    copy = tmp_path_factory.mktemp("tree")
    out = tmp_path_factory.mktemp("wheel")
    for name in _what_a_build_reads():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    done = subprocess.run([sys.executable, "-c", _BUILD, str(out)], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, f"the wheel cannot be built:\n{done.stdout}\n{done.stderr}"
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="session")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """Its METADATA."""
    return Parser().parsestr(wheel.read(f"{_dist_info()}/METADATA").decode())


def _dist_info() -> str:
    return f"{PACKAGE}-{pyproject()['project']['version']}.dist-info"


def test_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {PACKAGE, FOUND_BY_SPARK, _dist_info()}
    assert wheel.read(FOUND_BY_SPARK) == (ROOT / FOUND_BY_SPARK).read_bytes()


def test_holds_every_file_of_every_package(wheel: zipfile.ZipFile):
    expected = {f"{PACKAGE}/{name}" for name in files() if name.split("/")[0] in packages()}
    expected |= {name for name in files() if name.startswith(f"{PACKAGE}/") and not (ROOT / name).is_symlink()}
    held = {name for name in wheel.namelist() if name.startswith(f"{PACKAGE}/")}
    assert held == expected, "the map in pyproject.toml and the tree differ: what is not mapped is left out silently"
    assert f"{PACKAGE}/py.typed" in held


def test_holds_no_links(wheel: zipfile.ZipFile):
    links = [entry.filename for entry in wheel.infolist() if (entry.external_attr >> 16) & 0o170000 == 0o120000]
    assert not links


def test_holds_what_the_tree_holds(wheel: zipfile.ZipFile):
    for name in files():
        if name.split("/")[0] in packages():
            assert wheel.read(f"{PACKAGE}/{name}") == (ROOT / name).read_bytes(), name


def test_offers_the_command_and_the_pytest_plugin(wheel: zipfile.ZipFile):
    parser = ConfigParser()
    parser.read_string(wheel.read(f"{_dist_info()}/entry_points.txt").decode())
    assert {section: dict(parser[section]) for section in parser.sections()} == {
        "console_scripts": {"aiostorm": "aiostorm.cli:main"},
        "pytest11": {"aiostorm": "aiostorm.testing.plugin"},
    }


def test_metadata_says_what_pyproject_says(metadata: Message):
    project = pyproject()["project"]
    assert metadata["Name"] == project["name"]
    assert metadata["Version"] == project["version"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert metadata["License-Expression"] == project["license"]
    assert metadata["Summary"] == project["description"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    assert metadata.get_payload(), "the README is the long description"


def test_metadata_asks_for_what_pyproject_asks_for(metadata: Message):
    project = pyproject()["project"]
    asked = list(project["dependencies"])
    asked += [one for extra in project["optional-dependencies"].values() for one in extra]
    required = metadata.get_all("Requires-Dist", [])
    assert sorted(map(_name, required)) == sorted(map(_name, asked))
    assert not [one for one in required if "@" in one], "a dependency by address cannot be installed from a registry"


def test_every_dependency_has_a_lower_bound():
    project = pyproject()["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    groups += pyproject()["dependency-groups"].values()
    asked = [one for group in groups for one in group if isinstance(one, str)]  # what is included is listed itself
    bare = [one for one in asked if ">=" not in one and not one.startswith(f"{PACKAGE}[")]
    assert not bare, f"{bare}: say the oldest version it works with; .ci/run tries the oldest"


def test_no_trace_of_a_build_in_the_tree():
    assert not {"build", "dist"} & {name.split("/")[0] for name in files()}


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_installed_package_is_found_without_the_checkout(wheel: zipfile.ZipFile, tmp_path: Path):
    """Every module of the wheel is imported from the unpacked wheel: what it needs is in it."""
    wheel.extractall(tmp_path)
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in wheel.namelist()
        if name.endswith(".py") and not name.endswith("/__main__.py")
    ]
    if importlib.util.find_spec("pyspark") is None:  # its classes have PySpark's as their bases
        modules.remove("aiostorm.spark.datasource.api")
    script = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        # An editable install of this checkout would answer first.
        "sys.meta_path = [f for f in sys.meta_path if not getattr(f, '__module__', '').startswith('__editable__')]\n"
        "for name in sys.argv[1:]:\n"
        "    module = importlib.import_module(name)\n"
        f"    assert module.__file__.startswith({str(tmp_path)!r}), module.__file__\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", script, *modules],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
