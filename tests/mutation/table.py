"""Which tests a module has: its folder's, if the table does not name others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final[dict[str, tuple[str, ...]]] = {
    "acker/": ("tests/acker", "tests/tasks/test_detached.py", "tests/tasks/test_ack_batch.py"),
    "backpressure/": ("tests/backpressure", "tests/tasks/test_backpressure.py"),
    "cluster/fingerprint.py": ("tests/cluster/test_fingerprint.py",),
    "cluster/parent/worker_lifecycle.py": ("tests/cluster/parent/test_worker_lifecycle.py",),
    "cluster/scheduler.py": ("tests/cluster/test_scheduler.py",),
    "metrics/": ("tests/metrics",),
    "spark/batch/partitions.py": ("tests/spark/test_partitions.py", "tests/spark/test_partition_claims.py"),
    "state/aligner.py": ("tests/state/test_aligner.py",),
    "state/blobs.py": ("tests/state/test_blobs.py", "tests/state/test_deltas.py"),
    "state/chunks.py": ("tests/state/test_chunks.py", "tests/state/test_deltas.py"),
    "state/coordinator.py": ("tests/state/test_coordinator.py", "tests/state/test_coordinator_runs.py"),
    "state/deltas.py": ("tests/state/test_deltas.py",),
    "state/errors.py": ("tests/state/test_errors.py",),
    "state/governor.py": ("tests/state/test_governor.py",),
    "state/keeper.py": ("tests/state/test_keeper.py", "tests/state/test_loading.py"),
    "state/keyed.py": ("tests/state/test_keyed.py", "tests/state/test_deltas.py"),
    "state/listing.py": ("tests/state/test_listing.py",),
    "state/manifest.py": ("tests/state/test_manifest.py",),
    "state/ranges.py": ("tests/state/test_ranges.py",),
    "state/reopening_store.py": ("tests/state/test_reopening_store.py",),
    "state/sinks/": ("tests/state/sinks",),
    "tasks/snapshots/window_capture.py": (
        "tests/tasks/snapshots/test_window_tables.py",
        "tests/tasks/snapshots/test_window_capture.py",
    ),
    "topology/groupings/": ("tests/topology", "tests/tasks/test_emit.py"),
    "topology/guarantees.py": ("tests/topology/test_guarantees.py",),
    "topology/plan.py": ("tests/topology/test_plan.py",),
    "topology/state_checks.py": ("tests/topology/test_state_checks.py",),
    "topology/tuples/columns.py": ("tests/topology/test_columns.py",),
    "topology/tuples/tuples.py": ("tests/topology/test_tuples.py",),
    "transport/codec/": ("tests/transport/codec", "tests/transport/test_golden.py"),
    "transport/codec/batches.py": ("tests/transport/codec", "tests/transport/exchange/test_columns_sent.py"),
    "transport/exchange/": ("tests/transport/exchange",),
    "transport/link/": ("tests/transport/link",),
    "transport/net/stream_frames.py": ("tests/transport/net/test_stream_frames.py",),
    "transport/remote/": ("tests/transport/remote/test_remote_machines.py",),
    "windows/": ("tests/windows", "tests/tasks/test_window_tasks.py", "tests/tasks/test_row_time.py"),
    "windows/changes.py": ("tests/windows/test_changes.py",),
    "windows/joins/": ("tests/windows/joins/test_joins.py", "tests/windows/joins/test_joins_flow.py"),
}
"""A module or a folder → files and folders of tests. The longest that fits counts."""


def paths_of(file: str) -> tuple[str, ...]:
    """Where the tests of a module are. Raises LookupError if there are none."""
    fitting = [place for place in TESTS if file == place or (place.endswith("/") and file.startswith(place))]
    if fitting:
        return TESTS[max(fitting, key=len)]
    folder = f"tests/{file.partition('/')[0]}"
    if file.startswith("aiostorm/cli/"):
        folder = "tests/cli"
    if not Path(folder).is_dir():
        raise LookupError(f"{file} has no tests in {folder}: add a line to tests/mutation/table.py, or give --tests")
    return (folder,)
