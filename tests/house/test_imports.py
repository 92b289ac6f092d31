"""Importing is cheap: what a user does not touch is not loaded. And public names are there."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from .source import PACKAGE, packages, public_names, sub_packages

HEAVY = (
    "aiohttp",
    "pydantic",
    "yaml",
    "rich",
    "click",
    "msgpack",
    "uvloop",
    "pytest",
    "hypothesis",
    "pyspark",
    "numpy",
    "pyarrow",
)


def _loaded_after(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()}


def test_importing_the_package_loads_nothing_heavy():
    loaded = _loaded_after("import aiostorm") & set(HEAVY)
    assert not loaded, f"`import aiostorm` loads {sorted(loaded)}: give names lazily (module __getattr__)"


def test_pytest_plugin_loads_nothing_heavy():
    # Every project that has aiostorm installed loads it at each pytest start.
    allowed = {"pytest"}
    loaded = _loaded_after("import aiostorm.testing.plugin") & (set(HEAVY) - allowed)
    assert not loaded, f"the pytest plugin loads {sorted(loaded)}: import it in the fixture that needs it"


def test_an_ordinary_topology_runs_without_columns():
    script = """
import asyncio
import aiostorm

@aiostorm.spout("n")
def numbers():
    yield from range(3)

@aiostorm.bolt
def swallow(n):
    pass

async def main():
    builder = aiostorm.TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("swallow", swallow).fields_grouping("numbers", "n")
    async with aiostorm.LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_idle()

asyncio.run(main())
"""
    loaded = _loaded_after(script) & {"numpy", "pyarrow"}
    assert not loaded, f"a topology that emits no columns loads {sorted(loaded)}"


def test_help_loads_no_web_server():
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", PACKAGE, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    unwanted = loaded & {"aiohttp", "rich", "msgpack", "uvloop", "pyspark"}
    assert not unwanted, f"`aiostorm --help` loads {sorted(unwanted)}: import it in the command that needs it"


@pytest.mark.parametrize("package", [*packages(), *sub_packages()])
def test_a_package_has_the_names_it_lists(package: str):
    imported = importlib.import_module(".".join([PACKAGE, *package.removeprefix(f"{PACKAGE}/").split("/")]))
    missing = [name for name in public_names(package) or () if not hasattr(imported, name)]
    assert not missing, f"__all__ of {package} names {missing}, which it does not have"


def test_aiostorm_has_the_names_it_lists():
    front = importlib.import_module(PACKAGE)
    names = front.__all__
    assert len(names) == len(set(names))
    missing = [name for name in names if not hasattr(front, name)]
    assert not missing, f"__all__ of {PACKAGE} names {missing}, which it does not have"
    assert set(names) <= set(dir(front)), "dir() shows what there is: completion in a shell needs it"


def test_aiostorm_lists_only_public_names_of_packages():
    front = importlib.import_module(PACKAGE)
    given = {name for package in packages() for name in public_names(package) or ()}
    strange = [
        name for name in front.__all__ if name not in given and not name.startswith("__") and name not in packages()
    ]
    assert not strange, f"{strange}: aiostorm lists only public names of its packages"


def test_aiostorm_refuses_unknown_names():
    front = importlib.import_module(PACKAGE)
    with pytest.raises(AttributeError, match="no_such_name"):
        front.no_such_name  # noqa: B018 - the access is the test
