"""Cgroups: what is written where, whose subtree is used, and what the kernel's files say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.supervisor import CgroupError, CgroupTree, Key, Limits, found, prefix_of
from aiostorm.cluster.supervisor.cgroup_tree import KernelFiles, is_delegated
from aiostorm.cluster.supervisor.cgroups import (
    SUPERVISOR_GROUP,
    Mount,
    counts_of,
    folder_of,
    group_name,
    mount_in,
    own_cgroup,
    settings_of,
    why_ended,
)

from .kernel import FakeKernel

MIB = 1024**2
ALL = ("cpu", "memory", "pids")
KEY = Key("words", "worker-1")
PREFIX = prefix_of("/home", "a")
MOUNTED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


# -- pure --------------------------------------------------------------------------------------------------------------


def test_what_was_declared_is_written() -> None:
    assert settings_of(Limits(512 * MIB, 1.5), ALL) == [
        ("memory.high", str(480 * MIB)),
        ("memory.max", str(512 * MIB)),
        ("cpu.weight", "150"),
        ("cpu.max", "150000 100000"),
        ("pids.max", "4096"),
    ]
    assert settings_of(Limits(), ALL) == [("pids.max", "4096")]  # a parent, and a worker that declares nothing
    assert settings_of(Limits(512 * MIB, 1.5), ("memory",)) == settings_of(Limits(512 * MIB), ("memory", "cpu"))


@given(st.integers(0, 2**50), st.floats(0, 1_000))
def test_values_are_those_that_the_kernel_takes(memory_bytes: int, cores: float) -> None:
    found = dict(settings_of(Limits(memory_bytes, cores), ALL))
    assert int(found.get("memory.high", 0)) <= int(found.get("memory.max", 0))
    if cores:
        assert 1 <= int(found["cpu.weight"]) <= 10_000
        assert int(found["cpu.max"].split()[0]) >= 1_000


@given(st.text(min_size=1, max_size=200), st.integers(1, 2**22))
def test_a_name_is_one_folder(topology: str, pid: int) -> None:
    name = group_name(PREFIX, Key(topology, "worker-1"), pid)
    assert "/" not in name
    assert len(name.encode()) < 128
    assert name != group_name(PREFIX, Key(topology, "worker-2"), pid)
    assert name != group_name(prefix_of("/home", "b"), Key(topology, "worker-1"), pid)


def test_why_the_system_ended_it() -> None:
    assert why_ended("oom 1\noom_kill 1\n", f"{512 * MIB}\n") == (
        "the system ended it: memory.max of 512 MiB was reached"
    )
    assert "not for a limit of its own" in why_ended("oom_kill 1\n", "max\n")
    assert why_ended("low 0\nhigh 12\nmax 40\noom 0\noom_kill 0\n", f"{512 * MIB}\n") == ""
    assert why_ended("", "") == ""
    assert counts_of("oom_kill x\n\n1 2 3\noom 4\n") == {"oom": 4}


@pytest.mark.parametrize(
    ("text", "cgroup"),
    [
        ("0::/\n", "/"),
        ("12:cpu:/x\n0::/system.slice/a.service\n", "/system.slice/a.service"),
        ("12:memory:/x\n", None),
        ("", None),
    ],
)
def test_the_own_cgroup(text: str, cgroup: str | None) -> None:
    assert own_cgroup(text) == cgroup


def test_where_it_is_mounted() -> None:
    assert mount_in(f"22 1 8:1 / / rw - ext4 /dev/x rw\n{MOUNTED}") == Mount("/", "/sys/fs/cgroup", read_only=False)
    assert mount_in(MOUNTED.replace("rw,nosuid", "ro,nosuid")) == Mount("/", "/sys/fs/cgroup", read_only=True)
    assert mount_in(MOUNTED.replace("/sys/fs", r"/my\040fs")) == Mount("/", "/my fs/cgroup", read_only=False)
    assert mount_in("31 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n") is None
    assert mount_in("") is None


@pytest.mark.parametrize(
    ("root", "cgroup", "folder"),
    [
        ("/", "/", "/m"),
        ("/", "/system.slice/a.service", "/m/system.slice/a.service"),
        ("/", f"/system.slice/a.service/{SUPERVISOR_GROUP}", "/m/system.slice/a.service"),
        ("/docker/1", "/docker/1", "/m"),
        ("/docker/1", "/docker/2", None),
        ("/docker/1", "/", None),
    ],
)
def test_the_folder_of_a_cgroup(root: str, cgroup: str, folder: str | None) -> None:
    assert folder_of(Mount(root, "/m", read_only=False), cgroup) == folder


# -- which subtree -----------------------------------------------------------------------------------------------------


def described(folder: Path, cgroup: str, mounted: str) -> Path:
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mounted)
    return folder


def test_the_root_of_a_container_is_used(tmp_path: Path) -> None:
    root = tmp_path / "cg"
    FakeKernel(root)
    mounted = MOUNTED.replace("/sys/fs/cgroup", str(root))
    assert found(described(tmp_path / "one", "0::/\n", mounted)) == root
    assert found(described(tmp_path / "two", f"0::/{SUPERVISOR_GROUP}\n", mounted)) == root
    (root / "cgroup.events").unlink()  # it is the root of the machine
    with pytest.raises(CgroupError, match=r"not delegated to this process \(systemd: Delegate="):
        found(tmp_path / "one")


@pytest.mark.parametrize(
    ("cgroup", "mounted", "controllers", "what"),
    [
        ("9:memory:/\n", MOUNTED, "memory", "is not mounted here"),
        ("0::/\n", "", "memory", "is not mounted here"),
        ("0::/\n", MOUNTED.replace("rw,nosuid", "ro,nosuid"), "memory", "read-only"),
        ("0::/\n", MOUNTED, "cpu pids", "no memory controller"),
        ("0::/\n", MOUNTED, "", "no memory controller"),
        ("0::/none\n", MOUNTED, "memory", "is no folder of cgroup v2"),
    ],
)
def test_why_there_are_no_cgroups(cgroup: str, mounted: str, controllers: str, what: str, tmp_path: Path) -> None:
    FakeKernel(tmp_path / "cg", controllers)
    with pytest.raises(CgroupError, match=what):
        found(described(tmp_path / "proc", cgroup, mounted.replace("/sys/fs/cgroup", str(tmp_path / "cg"))))


def test_a_system_without_proc(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="has no cgroups"):
        found(tmp_path / "none")


def test_a_unit_is_used_if_systemd_has_marked_it(tmp_path: Path) -> None:
    FakeKernel(tmp_path / "cg")
    try:
        os.setxattr(tmp_path / "cg", "user.delegate", b"0")
    except (OSError, AttributeError):
        pytest.skip("this file system has no such attributes")
    assert not is_delegated(tmp_path / "cg", "/system.slice/a.service")  # though it belongs to this user
    os.setxattr(tmp_path / "cg", "user.delegate", b"1")
    assert is_delegated(tmp_path / "cg", "/system.slice/a.service")


# -- the tree ----------------------------------------------------------------------------------------------------------


def opened(kernel: FakeKernel) -> CgroupTree:
    return CgroupTree.opened(kernel.mounted, PREFIX, kernel)


def test_the_root_is_emptied_before_controllers_are_enabled(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg", processes="1\n17\n")
    opened(kernel)
    assert kernel.pids(kernel.mounted) == []
    assert kernel.pids(kernel.mounted / SUPERVISOR_GROUP) == ["1", "17"]
    assert kernel.read(kernel.mounted / "cgroup.subtree_control").split() == ["cpu", "memory", "pids"]
    opened(kernel)  # the next supervisor
    assert kernel.pids(kernel.mounted / SUPERVISOR_GROUP) == ["1", "17"]


def test_a_root_that_is_never_empty_is_not_used(tmp_path: Path) -> None:
    class Busy(FakeKernel):
        def write(self, path: Path, text: str) -> None:
            if path.name != "cgroup.procs":
                super().write(path, text)

    with pytest.raises(CgroupError, match="new processes are started"):
        opened(Busy(tmp_path / "cg", processes="1\n"))


async def test_a_process_has_a_cgroup_until_it_ends(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg", processes="1\n17\n")
    tree = opened(kernel)
    await tree.begin(KEY, 17, Limits(512 * MIB, 2.0))
    group = kernel.mounted / group_name(PREFIX, KEY, 17)
    assert kernel.pids(group) == ["17"]
    assert {
        name: kernel.read(group / name).strip() for name in ("memory.max", "memory.high", "cpu.max", "pids.max")
    } == {
        "memory.max": str(512 * MIB),
        "memory.high": str(480 * MIB),
        "cpu.max": "200000 100000",
        "pids.max": "4096",
    }
    assert kernel.read(group / "memory.oom.group").strip() == "1"
    assert not (group / "memory.swap.max").exists()  # this system has none
    kernel.write(group / "cgroup.procs", "18")  # a child, which is left
    assert await tree.ended(KEY, 17) == ""
    assert [each.name for each in kernel.groups()] == [SUPERVISOR_GROUP]
    assert await tree.ended(KEY, 17) == ""  # and one that never had one


async def test_out_of_memory_is_said(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg")
    tree = opened(kernel)
    await tree.begin(KEY, 17, Limits(512 * MIB))
    kernel.out_of_memory(kernel.mounted / group_name(PREFIX, KEY, 17))
    assert await tree.ended(KEY, 17) == "the system ended it: memory.max of 512 MiB was reached"


async def test_what_is_busy_is_removed_later(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg")
    tree = opened(kernel)
    await tree.begin(KEY, 17, Limits())
    kernel.slow = True
    assert await tree.ended(KEY, 17) == ""
    assert len(kernel.groups()) == 2
    await tree.tidy()
    assert [each.name for each in kernel.groups()] == [SUPERVISOR_GROUP]
    await tree.tidy()


async def test_a_kernel_that_cannot_end_what_is_left(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg")
    tree = opened(kernel)
    await tree.begin(KEY, 17, Limits())
    group = kernel.mounted / group_name(PREFIX, KEY, 17)
    (group / "cgroup.kill").unlink()
    assert await tree.ended(KEY, 17) == ""
    await tree.tidy()
    assert group.exists()
    kernel.end_all(group)
    await tree.tidy()
    assert not group.exists()


async def test_a_cgroup_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    class Full(FakeKernel):
        def write(self, path: Path, text: str) -> None:
            if path.name == "memory.max":
                raise OSError(28, "no")
            super().write(path, text)

    kernel = Full(tmp_path / "cg")
    tree = opened(kernel)
    with pytest.raises(OSError, match="no"):
        await tree.begin(KEY, 17, Limits(512 * MIB))
    assert [each.name for each in kernel.groups()] == [SUPERVISOR_GROUP]


async def test_the_next_supervisor_keeps_what_runs_and_removes_the_rest(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "cg")
    first = opened(kernel)
    other = CgroupTree.opened(kernel.mounted, prefix_of("/home", "b"), kernel)
    await first.begin(KEY, 17, Limits(512 * MIB))
    await first.begin(Key("words", "parent"), 18, Limits())
    await other.begin(KEY, 19, Limits())
    kernel.end_all(kernel.mounted / group_name(PREFIX, Key("words", "parent"), 18))  # ended while there was none
    second = opened(kernel)
    await second.keep([(KEY, 17), (Key("old", "parent"), 5)])  # that one was started without cgroups
    names = [each.name for each in kernel.groups()]
    assert sorted(names) == sorted(
        [SUPERVISOR_GROUP, group_name(PREFIX, KEY, 17), group_name(prefix_of("/home", "b"), KEY, 19)]
    )
    assert kernel.pids(kernel.mounted / group_name(PREFIX, KEY, 17)) == ["17"]


def test_files_of_the_system_are_not_made(tmp_path: Path) -> None:
    """In cgroup v2 a file that is not there cannot be made: what a kernel lacks is an error, and no ordinary file."""
    with pytest.raises(FileNotFoundError):
        KernelFiles().write(tmp_path / "memory.max", "1")
    (tmp_path / "memory.max").write_text("max")
    KernelFiles().write(tmp_path / "memory.max", "1")
    assert KernelFiles().read(tmp_path / "memory.max")[:1] == "1"
