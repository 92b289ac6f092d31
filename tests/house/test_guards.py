"""The guards in tests/conftest.py catch what they are for: misbehaving tests run once, in a process of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .source import ROOT

MISBEHAVING = """
import asyncio, gc, logging
import time
import pytest
from hypothesis import given, strategies as st

async def sleepy():
    await asyncio.sleep(3600)

async def raising():
    raise ValueError("lost")

async def test_leak():
    test_leak.held = asyncio.create_task(sleepy(), name="left-behind")
    await asyncio.sleep(0)

async def test_lost_exception():
    task = asyncio.create_task(raising())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task

async def test_lost_in_a_cycle():
    class Knot: ...
    knot = Knot()
    knot.self, knot.task = knot, asyncio.create_task(raising())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

async def test_callback():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)

def test_unpickles():
    import pickle
    from fractions import Fraction
    with pytest.raises(RuntimeError, match="data never becomes code"):
        pickle.loads(pickle.dumps(Fraction(1, 2)))

def test_unpickles_in_secret():
    import pickle
    from fractions import Fraction
    try:
        pickle.loads(pickle.dumps(Fraction(1, 2)))
    except Exception:
        logging.getLogger(__name__).debug("eaten")

@pytest.mark.sockets
async def test_blocks():
    until_s = time.process_time() + 0.6
    while time.process_time() < until_s:
        pass

@pytest.mark.sockets
@pytest.mark.blocks_loop
async def test_blocks_on_purpose():
    time.sleep(0.4)

@pytest.fixture
async def service():
    task = asyncio.create_task(sleepy())
    yield task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

async def test_fixture_ends_its_task(service):
    await asyncio.sleep(0)

def test_plain():
    assert gc.isenabled()

@given(st.integers())
async def test_property(n):
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))

@given(st.integers())
def test_plain_property(n):
    assert n == n
"""

GOOD = {"test_blocks_on_purpose", "test_fixture_ends_its_task", "test_plain", "test_property", "test_plain_property"}
CAUGHT = {
    "test_leak": "left-behind",
    "test_lost_exception": "never retrieved",
    "test_lost_in_a_cycle": "never retrieved",
    "test_callback": "ZeroDivisionError",
    "test_unpickles": "pickle made objects",
    "test_unpickles_in_secret": "pickle made objects",
    "test_blocks": "the event loop was blocked",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What was reported of each misbehaving test; empty text where all was well. A test in two loops counts as one."""
    folder = tmp_path_factory.mktemp("misbehaving")
    shutil.copy(ROOT / "tests/conftest.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "test_misbehaving.py").write_text(MISBEHAVING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", "test_misbehaving.py"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        capture_output=True,
        text=True,
    )
    assert (folder / "out.xml").exists(), done.stdout + done.stderr
    return _reported(folder / "out.xml")


def _reported(file: Path) -> dict[str, str]:
    failures: dict[str, str] = {}
    for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314 - our own file
        name = (case.get("name") or "").split("[")[0]
        failures[name] = failures.get(name, "") + "".join(
            step.text or "" for step in case if step.tag in ("failure", "error")
        )
    return failures


def test_every_case_ran(outcomes: dict[str, str]):
    assert set(outcomes) == GOOD | set(CAUGHT)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_leaves_alone(outcomes: dict[str, str], name: str):
    assert outcomes[name] == ""


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_catches(outcomes: dict[str, str], name: str):
    assert CAUGHT[name] in outcomes[name]
