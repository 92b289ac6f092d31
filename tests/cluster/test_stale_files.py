"""What processes have left that are no more is removed, and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aiostorm.cluster.stale_files import names_in, own_name, remove, sweep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process ids of another kind")

NO_PROCESS = 4194305
"""Above the greatest process id that Linux gives."""


def test_files_of_ended_processes_are_removed(tmp_path: Path) -> None:
    space = own_name("").partition("-")[0]
    ended, here, strange = (tmp_path / f"x-{space}-{pid}-a" for pid in (NO_PROCESS, os.getpid(), "no-pid"))
    elsewhere = tmp_path / f"x-1{space}-{NO_PROCESS}-a"  # a container's that shares this folder with us
    other = tmp_path / f"y-{space}-{NO_PROCESS}-a"
    for folder in (ended, here, strange, elsewhere, other):
        folder.mkdir()
        (folder / "worker-1").touch()
    file = tmp_path / f"x-{space}-{NO_PROCESS}-b"
    file.touch()
    link = tmp_path / f"x-{space}-{NO_PROCESS}-c"
    link.symlink_to(here)
    sweep(tmp_path, "x-")
    assert sorted(tmp_path.iterdir()) == sorted([here, strange, elsewhere, other])
    assert (here / "worker-1").exists(), "a link is removed, not what it leads to"


def test_names_contain_their_process(tmp_path: Path) -> None:
    for name in ("a", "a-b"):
        (tmp_path / (own_name("x-") + name)).touch()
    assert [(pid, rest) for _, pid, rest in names_in(tmp_path, "x-")] == [(os.getpid(), "a"), (os.getpid(), "a-b")]


def test_a_folder_that_cannot_be_removed_stays(tmp_path: Path) -> None:
    full = tmp_path / "full"
    (full / "inner").mkdir(parents=True)
    remove(full)
    remove(tmp_path / "nothing")
    assert (full / "inner").exists()
