"""The check of a target in a process of its own: only the submitted code is found, and mistakes are named."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from aiostorm.cluster.client import CheckError
from aiostorm.cluster.client.checking import check_target
from aiostorm.cluster.code import ArchiveError, pack
from aiostorm.runtime import process_space

pytestmark = pytest.mark.sockets

NO_PROCESS = 4194305
"""Above the greatest process id that Linux gives."""

WORDS = """
import os, sys
from aiostorm import BasicBolt, Config, Spout, TopologyBuilder, Tumbling, WindowedBolt, bolt, spout

print("printed by the module")
os.write(1, b"written past sys.stdout\\n")

@spout(outputs="n")
def numbers():
    yield from range(10)

@bolt(outputs="n")
def double(n):
    return 2 * n

def make(count="3", name="words", **more):
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("double", double, int(count)).shuffle_grouping("numbers")
    return builder.create_topology(name, config=Config(workers=3, **more))

topology = make()
"""


def code(folder: Path, **modules: str) -> bytes:
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return pack(folder)


async def test_other_numbers_of_tasks(tmp_path: Path) -> None:
    archive = code(tmp_path / "in", words=WORDS)
    checked = await check_target("words:topology", (), {}, archive, parallelism={"double": 7}, kept={"removed": 2})
    assert checked.tasks == 1 + 7 + 3
    assert checked.parallelism == {"double": 7}, "what is kept may be missing now"
    with pytest.raises(CheckError, match="there is no component 'dubble': there are numbers, double"):
        await check_target("words:topology", (), {}, archive, parallelism={"dubble": 7})
    settings = {"topology.max.task.parallelism": 4}
    with pytest.raises(CheckError, match=r"'double' cannot have 7 tasks: topology\.max\.task\.parallelism is 4"):
        await check_target("words:topology", (), settings, archive, parallelism={"double": 7})


async def test_a_topology_that_can_be_submitted(tmp_path: Path) -> None:
    archive = code(tmp_path / "in", words=WORDS)
    checked = await check_target("words:topology", (), {}, archive)
    assert (checked.name, checked.workers, checked.spouts) == ("words", 3, ("numbers",))
    assert checked.components == {
        "numbers": {"kind": "spout", "tasks": 1},
        "double": {"kind": "bolt", "tasks": 3},
    }
    assert checked.tasks == 1 + 3 + 3, "with an acker for each worker"
    assert Path(checked.file).name == "words.py"
    again = await check_target("words:make", ("5", "other"), {"topology.acker.executors": 1}, archive)
    assert (again.name, again.tasks) == ("other", 1 + 5 + 1)


async def test_the_current_folder_is_not_looked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not be there on the nodes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("")
    with pytest.raises(CheckError, match="No module named 'helper'"):
        await check_target("words:topology", (), {}, code(tmp_path / "in", words="import helper\n" + WORDS))
    with pytest.raises(CheckError, match=r"no module helper; .* \(the submitted code has words\)"):
        await check_target("helper:topology", (), {}, code(tmp_path / "other", words=WORDS))
    (tmp_path / "here.py").write_text(WORDS)
    checked = await check_target("here:topology", (), {}, None)  # the nodes may have it there
    assert checked.file == str(tmp_path / "here.py")


@pytest.mark.parametrize(
    ("target", "settings", "match"),
    [
        ("words:nothing", {}, "words has no attribute 'nothing'|words .* has no attribute 'nothing'"),
        ("words:make", {"topology.max.spout.pending": 0}, "topology.max.spout.pending"),
        ("words:make", {"topology.no.such": 1}, "no such setting"),
        ("bad:topology", {}, "ZeroDivisionError: division by zero"),
        ("leaves:topology", {}, "it exits"),
        ("borrowed:topology", {}, "no function that is defined in borrowed"),
    ],
)
async def test_what_cannot_be_submitted(tmp_path: Path, target: str, settings: dict[str, object], match: str) -> None:
    modules = {
        "words": WORDS,
        "bad": "1 / 0",
        "leaves": "import sys\nsys.exit(3)",
        "borrowed": "from words import make as topology",
    }
    with pytest.raises(CheckError, match=match):
        await check_target(target, (), settings, code(tmp_path / "in", **modules))


async def test_a_module_that_ends_the_process(tmp_path: Path) -> None:
    archive = code(tmp_path / "in", words="import os, sys\nprint('last words', file=sys.stderr)\nos._exit(7)")
    with pytest.raises(CheckError, match=r"has ended with code 7 \(it printed last: last words\)"):
        await check_target("words:topology", (), {}, archive)


async def test_a_module_that_does_not_end(tmp_path: Path) -> None:
    archive = code(tmp_path / "in", words="import time\nprint('begins')\ntime.sleep(3600)")
    with pytest.raises(CheckError, match=r"not imported within 3 s \(it printed last: begins\): .*--check-timeout"):
        await check_target("words:topology", (), {}, archive, timeout_s=3)


async def test_threads_of_user_code_do_not_keep_it(tmp_path: Path) -> None:
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,)).start()\n" + WORDS
    checked = await check_target("words:topology", (), {}, code(tmp_path / "in", words=text))
    assert checked.name == "words"


async def test_output_without_end(tmp_path: Path) -> None:
    text = "import sys\nfor _ in range(300):\n    sys.stderr.write('x' * 10_000)\n" + WORDS
    assert (await check_target("words:topology", (), {}, code(tmp_path / "in", words=text))).name == "words"


async def test_nothing_of_it_is_imported_here(tmp_path: Path) -> None:
    await check_target("words_of_check:topology", (), {}, code(tmp_path / "in", words_of_check=WORDS))
    assert "words_of_check" not in sys.modules


async def test_what_a_killed_client_has_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders in folders; and nothing that a link leads to."""
    archive = code(tmp_path / "in", words=WORDS)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    place = tmp_path / "tmp"
    left = place / f"aiostorm-check-{process_space()}-{NO_PROCESS}-x"
    (left / "code" / "package").mkdir(parents=True)
    (left / "code" / "package" / "module.py").write_text("")
    (left / "code" / "link").symlink_to(outside)
    living = place / f"aiostorm-check-{process_space()}-{os.getppid()}-x"
    living.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    await check_target("words:topology", (), {}, archive)
    assert list(place.iterdir()) == [living]
    assert (outside / "kept").exists()


async def test_what_is_no_archive() -> None:
    with pytest.raises(ArchiveError, match="the archive is no zip"):
        await check_target("words:topology", (), {}, b"no zip")
