"""The machine's own time, and the file systems that it shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiostorm.runtime import boot_id, shared_file_system, since_boot_s


def test_the_time_since_the_start_goes_on_and_the_start_stays() -> None:
    assert 0 < since_boot_s() <= since_boot_s()
    assert boot_id() == boot_id() != ""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data/ada/x", "nfs4"),
        ("/data", "nfs4"),
        ("/database", ""),
        ("/data/local/x", ""),
        ("/a b/c", "cifs"),
        ("/twice", ""),
        ("/", ""),
    ],
)
def test_a_folder_is_where_the_nearest_mount_is(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nserver:/data /data nfs4 rw 0 0\n/dev/sdb1 /data/local xfs rw 0 0\n"
        "//server/x /a\\040b cifs rw 0 0\nserver:/t /twice nfs rw 0 0\ntmpfs /twice tmpfs rw 0 0\n"
    )
    assert shared_file_system(Path(folder), mounts) == kind


def test_where_mounts_are_not_known_nothing_is_shared(tmp_path: Path) -> None:
    assert shared_file_system(tmp_path, tmp_path / "none") == ""
