"""A child that user code forks is no second topology: it ends where it comes back, and may do its own work before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="it has no fork"),
]

PROGRAM = """
import asyncio, multiprocessing, os, sys, threading
import aiostorm
from aiostorm import BasicBolt, TopologyBuilder
from aiostorm.testing import FixedSpout

HOW, SEEN = sys.argv[1:]

def work():
    with open(SEEN, "a") as file:
        file.write("child\\n")

class Forks(BasicBolt):
    blocking = HOW == "thread"
    def execute(self, tup, collector):
        if tup["n"] == 3:
            if HOW == "multiprocessing":
                child = multiprocessing.get_context("fork").Process(target=work)
                child.start()
                child.join()
                print("code", child.exitcode, flush=True)
            else:
                pid = os.fork()
                if not pid:
                    work()
                    if HOW == "ends":
                        os._exit(5)
                    return
                print("code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        with open(SEEN, "a") as file:
            file.write(f"{tup['n']}\\n")

async def main():
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedSpout([(n,) for n in range(10)], "n"))
    builder.set_bolt("forks", Forks).shuffle_grouping("numbers")
    async with aiostorm.running(builder.create_topology("t")) as running:
        await running.wait_finished(30)
    print("parent has ended", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(("how", "code"), [("returns", 70), ("thread", 70), ("ends", 5), ("multiprocessing", 0)])
def test_a_forked_child_does_its_work_and_ends(how: str, code: int, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, str(program), how, str(seen)], capture_output=True, text=True, check=False, timeout=60
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [f"code {code}", "parent has ended"]
    lines = seen.read_text().split()
    assert lines.count("child") == 1
    assert sorted(line for line in lines if line != "child") == [str(n) for n in range(10)], "each once"
    assert ("returned to aiostorm: it exits now" in found.stderr) == (code == 70)
