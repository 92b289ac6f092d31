"""Who may do what: the tables that the rules look up. To add a line here is a decision; say why beside it."""

from __future__ import annotations

from typing import Final

MACHINES: Final = (
    # Decisions: events in, decisions out, time and chance passed in. Patterns; what they match must stay pure.
    "acker/ids.py",
    "acker/ledger.py",
    "acker/pending.py",
    "acker/retries.py",
    "actors/gate.py",
    "actors/lanes.py",
    "actors/policy.py",
    "backpressure/*.py",
    "cluster/access/audit.py",
    "cluster/access/certificates.py",
    "cluster/access/failures.py",
    "cluster/access/proving.py",
    "cluster/access/roles.py",
    "cluster/access/tokens.py",
    "cluster/access/wire.py",
    "cluster/client/settings.py",
    "cluster/client/views.py",
    "cluster/code/names.py",
    "cluster/coordination/operations.py",
    "cluster/coordination/tree.py",
    "cluster/distributed_idle.py",
    "cluster/health.py",
    "cluster/nimbus/capacity.py",
    "cluster/nimbus/failing.py",
    "cluster/nimbus/free_slots.py",
    "cluster/nimbus/isolation.py",
    "cluster/nimbus/joining.py",
    "cluster/nimbus/nodes.py",
    "cluster/nimbus/pins.py",
    "cluster/nimbus/planning.py",
    "cluster/nimbus/records.py",
    "cluster/nimbus/shown.py",
    "cluster/submitted/order.py",
    "cluster/report/card.py",
    "cluster/report/charts.py",
    "cluster/report/page.py",
    "cluster/report/parts.py",
    "cluster/report/samples.py",
    "cluster/pinned.py",
    "cluster/scheduler.py",
    "cluster/supervisor/cgroups.py",
    "cluster/supervisor/failures.py",
    "cluster/supervisor/neighbours.py",
    "cluster/supervisor/slots.py",
    "cluster/parent/worker_lifecycle.py",
    "metrics/*.py",
    "spark/batch/chunking.py",
    "spark/batch/position.py",
    "spark/datasource/chunks.py",
    "spark/datasource/schemas.py",
    "spark/executors/messages.py",
    "spark/digests.py",
    "spark/datasource/egress_log.py",
    "spark/sinks/held_writes.py",
    "spark/datasource/ingress_ledger.py",
    "spark/sinks/row_buffer.py",
    "spark/sinks/parquet_files.py",
    "spark/sinks/parquet_names.py",
    "spark/stream/batches.py",
    "spark/stream/positions.py",
    "spark/workers/launch_spec.py",
    "spark/resources.py",
    "spark/sinks/table_ledger.py",
    "state/aligner.py",
    "state/coordinator.py",
    "state/blobs.py",
    "state/chunks.py",
    "state/deltas.py",
    "state/errors.py",
    "state/garbage.py",
    "state/governor.py",
    "state/keyed.py",
    "state/manifest.py",
    "state/ranges.py",
    "state/sinks/map_sink.py",
    "state/sinks/maps.py",
    "state/sinks/sink.py",
    "tasks/emit/detached.py",
    "tasks/emit/emitter.py",
    "tasks/emit/lineage.py",
    "tasks/emit/out_streams.py",
    "testing/simulation/diagram.py",
    "testing/simulation/report.py",
    "testing/simulation/shrink.py",
    "testing/simulation/svg.py",
    "testing/virtual_time.py",
    "topology/*.py",
    "transport/codec/arrays.py",
    "transport/codec/batches.py",
    "transport/link/send_queue.py",
    "transport/exchange/credit.py",
    "transport/codec/extensions.py",
    "transport/net/addresses.py",
    "transport/net/admission.py",
    "transport/net/authentication.py",
    "transport/net/blocking_frames.py",
    "transport/net/stream_frames.py",
    "transport/link/headers.py",
    "transport/exchange/anchors.py",
    "transport/codec/numbers.py",
    "transport/codec/payloads.py",
    "transport/codec/records.py",
    "transport/codec/scan.py",
    "transport/remote/exports.py",
    "transport/remote/notes.py",
    "transport/remote/flow_control.py",
    "transport/exchange/segments.py",
    "transport/link/sequence.py",
    "transport/link/handshake.py",
    "transport/link/line_rate.py",
    "transport/link/parts.py",
    "transport/link/send_buffer.py",
    "transport/codec/values.py",
    "ui/cause.py",
    "ui/cluster_model.py",
    "ui/error_groups.py",
    "ui/guard.py",
    "ui/history.py",
    "ui/model.py",
    "ui/openapi.py",
    "ui/reading.py",
    "ui/recent.py",
    "ui/settings.py",
    "ui/text.py",
    "windows/*.py",
)

MACHINE_BANS: Final = ("asyncio", "time", "threading", "concurrent", "socket", "random", "select", "selectors")
"""Imports no machine may have at run time (under TYPE_CHECKING they are only words)."""

PROGRAMS: Final = ("aiostorm/__main__.py", "aiostorm/cli/*.py")
"""The command line is no part of what a simulation runs: it reads the user's files, and shows the time it took."""

SEAMS: Final[dict[str, tuple[str, ...]]] = {
    # What reaches outside the process, or makes two runs differ → the only modules that touch it. Patterns.
    # Time:
    "time": (
        "runtime/clock.py",  # the clock itself
        "runtime/stall.py",  # a thread that watches real time while the loop is stuck
        "runtime/threads.py",  # sleeps for a moment, for threads of the same process
        "runtime/machine.py",  # the time since the machine was started
        "runtime/process_metrics.py",  # real time, and the processor's
        "runtime/profile.py",  # how long real code is where
        "cluster/worker/heartbeat.py",  # the same
        "aiostorm/cli/certs_command.py",  # certificates have dates; no loop runs there
        "spark/executors/client.py",  # waits in an executor, where no loop runs
    ),
    "datetime.datetime.now": ("runtime/clock.py",),
    "datetime.datetime.utcnow": (),
    "datetime.datetime.today": (),
    "datetime.date.today": (),
    # Chance:
    "random": (
        "runtime/rng.py",
        "testing/simulation/chance.py",  # every random choice of a simulated world, from its seed
    ),
    "secrets": ("runtime/rng.py",),
    "os.urandom": ("runtime/rng.py",),
    "os.getrandom": (),
    "uuid": ("transport/codec/extensions.py",),  # makes the UUIDs that came
    "numpy.random": (),
    # The network:
    "socket": (
        "aiostorm/cli/doctor.py",  # can a port be opened here?
        "transport/net/accepting.py",
        "transport/net/blocking.py",  # the end of a connection where no loop runs
        "transport/net/bound_sockets.py",
        "transport/net/websockets.py",
    ),
    "socketserver": (),
    "ssl": (
        "spark/batch/push_server.py",  # executors show no certificate
        "spark/batch/pushing.py",  # runs in executors, which have the CA as text
        "transport/net/blocking.py",
        "transport/net/listening.py",
        "transport/net/security.py",
        "transport/net/tls.py",
        "transport/net/websockets.py",
    ),
    "aiohttp": (
        "transport/net/listening.py",
        "transport/net/websocket_connection.py",
        "transport/net/websockets.py",
        "ui/app.py",  # the server of the page
        "ui/asgi.py",  # its application, behind an ASGI server
        "ui/cluster_routes.py",  # its requests and responses
        "ui/commands.py",  # the same
        "ui/profiles.py",  # the same
        "ui/routes.py",  # the same
        "ui/traces.py",  # the same
    ),
    "http": (),
    "urllib.request": (),
    "asyncio.open_connection": (),
    "asyncio.open_unix_connection": (),
    "asyncio.start_server": (),
    "asyncio.start_unix_server": (),
    "select": (),
    "selectors": ("testing/virtual_loop.py",),  # virtual time looks at what I/O is waited for
    # The disk:
    "io.open": (),
    "io.open_code": (),
    "io.FileIO": (),
    "codecs.open": (),
    "tempfile": (
        "aiostorm/cli/doctor.py",  # can there be temporary files?
        "spark/java.py",  # a shim for one who has no home to write to
        "cluster/client/checking.py",  # code is unpacked there to be checked
        "cluster/control/folder.py",  # where running topologies are found
        "cluster/parent/process_backend.py",  # a folder for the sockets of workers
    ),
    "shutil": (
        "spark/java.py",  # which Java is on PATH
        "cluster/code/archive.py",  # removes a folder
        "cluster/code/cache.py",  # the same
        "cluster/stale_files.py",  # the same
        "cluster/supervisor/disk.py",  # how much is free
        "cluster/supervisor/old_logs.py",  # the same
    ),
    "sqlite3": ("cluster/coordination/sqlite_tree.py",),  # a store for the processes of one machine
    "dbm": (),
    "glob": (),
    "fileinput": (),
    "mmap": (),
    "fcntl": (
        "cluster/access/token_file.py",  # one process at a time changes the file
        "cluster/supervisor/slot_files.py",  # one supervisor at a time has a folder
        "runtime/directory_store.py",  # one store at a time has a directory
        "runtime/files.py",  # macOS syncs with it
    ),
    "logging.FileHandler": (),
    "logging.handlers": (),
    # Processes, and what the system does for one (files and pipes, too):
    "os": (
        "runtime/directory_store.py",
        "runtime/files.py",
        "runtime/forking.py",  # a forked child ends
        "runtime/process_metrics.py",  # what this process uses
        "runtime/process_identity.py",  # which process is it?
        "runtime/processes/detached.py",
        "runtime/processes/parent_watch.py",
        "runtime/processes/spawner.py",
        "cluster/worker/heartbeat.py",  # writes past a loop that is stuck
        "cluster/access/audit_log.py",  # a file that grows, and is renamed
        "cluster/access/token_file.py",  # has the file changed?
        "cluster/control/folder.py",  # whose is this folder, and who may reach into it?
        "cluster/code/archive.py",  # the files of a folder, packed and unpacked
        "cluster/code/cache.py",  # the unpacked code of this machine
        "cluster/home.py",  # whose is this folder, and who may reach into it?
        "cluster/logs/*.py",  # the output of processes: no link is followed, and which file is it now?
        "cluster/parent_address.py",  # a file that another process writes
        "cluster/stale_files.py",  # which processes are no more
        "cluster/supervisor/cgroup_tree.py",  # folders and files of cgroup v2
        "cluster/supervisor/logs.py",  # the logs of processes
        "cluster/supervisor/old_logs.py",  # those of topologies that have ended
        "cluster/supervisor/slot_files.py",  # which processes were started
        "cluster/fingerprint.py",  # where is the file of a module?
        "cluster/targets.py",  # a module of the user's stands in the current directory
        "cluster/snapshots/place.py",  # the path of a folder, from the user's home and the current directory
        "transport/net/credentials.py",  # whose are these files, and who may read them?
        "transport/net/bound_sockets.py",
        "spark/executors/endpoints.py",  # a folder of addresses: whose is it, and who may read it?
        "spark/java.py",  # the process' number, in the name of a file
        "spark/sinks/parquet_store.py",  # the files of a sink, synced and renamed
        "state/sinks/file_sink.py",  # the same
        "ui/process_logs.py",  # the output of processes of a cluster: no link is followed
        "spark/workers/slot.py",  # does Spark's daemon live? And the current directory
        "spark/workers/backend.py",  # the current directory, for workers on this machine
        *PROGRAMS,
    ),
    "subprocess": (
        "runtime/processes/detached.py",
        "runtime/processes/spawner.py",
        "spark/jvm_guard.py",  # outlives this process, to end a JVM that hangs
        "spark/java.py",  # asks a Java for its version
    ),
    "asyncio.create_subprocess_exec": (),
    "asyncio.create_subprocess_shell": (),
    "multiprocessing": (),
    "concurrent.futures.ProcessPoolExecutor": (),
    "pty": (),
    "ctypes": ("runtime/processes/parent_watch.py",),  # prctl: Python does not give it
    "signal": (
        "runtime/processes/detached.py",
        "runtime/processes/parent_watch.py",
        "runtime/processes/spawner.py",
        "aiostorm/cli/signals.py",  # Ctrl-C
        "tasks/exits.py",  # asks who would have raised a SystemExit: user code, or the program's own handler
    ),
    "threading": (
        "spark/connect.py",  # a call that hangs while it connects: a timer closes its client
        "spark/batch/source.py",  # opened by the first task, in a thread
        "runtime/processes/parent_watch.py",  # waits for the parent's end, whatever the loop does
        "runtime/stall.py",
        "runtime/profile.py",  # looks at the other threads
        "cluster/worker/heartbeat.py",  # says that the process lives, while the loop is stuck
        "cluster/worker/log.py",  # the name of the thread that prints: a blocking component's
        "spark/calls.py",  # what blocks in the JVM
        "spark/workers/jobs.py",  # a job of Spark's blocks as long as a worker lives
        "spark/sessions.py",  # who shares the one session
        "spark/stream/foreach_batch.py",  # Spark calls it in a thread of its own, which waits
        "spark/stream/query.py",  # starts and stops in threads, not both at once
        "spark/stream/session.py",  # the same
    ),
    "concurrent.futures": (
        "runtime/threaded_store.py",  # the medium is waited for in a thread
        "cluster/coordination/sqlite.py",  # the same
        "spark/sinks/parquet_manifest.py",  # footers of a store far away, some at once, in a thread that waits for them
        "tasks/user_code.py",  # components with blocking=True run in threads
        "testing/virtual_loop.py",  # time stands still while a thread works
    ),
}

SEAM_TYPES: Final = ("concurrent.futures.Executor", "random.Random", "uuid.UUID")
"""Types of a seam that may be named in annotations anywhere: the object was made at the seam."""

HARMLESS: Final = (
    # What belongs to a seam's module and neither reaches out nor differs between two runs on one machine.
    "os.PathLike",
    "os.environ",
    "os.fspath",
    "os.getpid",
    "os.name",
    "os.path.basename",
    "os.path.dirname",
    "os.path.isabs",
    "os.path.join",
    "os.path.normpath",
    "os.path.sep",
    "os.path.splitext",
    "os.sep",
    "http.HTTPStatus",
    "uuid.uuid5",
)

SEAM_METHODS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # What is reached by methods of objects: (names that say so on any object, the only modules that call them).
    "the network": (
        (
            "connect_accepted_socket",
            "create_connection",
            "create_datagram_endpoint",
            "create_server",
            "create_unix_connection",
            "create_unix_server",
            "sock_accept",
            "sock_connect",
        ),
        (
            "aiostorm/cli/doctor.py",
            "transport/net/accepting.py",
            "transport/net/listening.py",
            "transport/net/bound_sockets.py",
            "transport/net/unix_network.py",
        ),
    ),
    "a process": (("subprocess_exec", "subprocess_shell"), ("runtime/processes/spawner.py",)),
    "the disk": (
        (
            "hardlink_to",
            "iterdir",
            "mkdir",
            "read_bytes",
            "read_text",
            "rglob",
            "rmdir",
            "symlink_to",
            "touch",
            "unlink",
            "write_bytes",
            "write_text",
        ),
        (
            "runtime/directory_store.py",
            "runtime/files.py",
            "runtime/processes/detached.py",  # the output of processes
            "runtime/machine.py",  # Linux tells in files what is mounted, and which start this is
            "runtime/process_metrics.py",  # what this process uses: Linux tells it in files
            "runtime/process_identity.py",  # when a process began: the same
            "cluster/access/audit_log.py",  # a file that grows, and is renamed
            "cluster/access/token_file.py",  # has the file changed?
            "cluster/control/folder.py",  # a folder of sockets
            "cluster/client/checking.py",  # a folder for a process that imports the code
            "cluster/code/archive.py",  # the files of a folder, packed and unpacked
            "cluster/code/cache.py",  # the unpacked code of this machine
            "cluster/coordination/places.py",  # is there a store?
            "cluster/home.py",  # a folder of the daemons' files
            "cluster/parent_address.py",  # a file that another process writes
            "cluster/stale_files.py",  # sockets, and folders of them
            "cluster/supervisor/cgroup_tree.py",  # folders and files of cgroup v2
            "cluster/logs/files.py",  # the output of processes
            "cluster/supervisor/*logs.py",  # the same, and that of topologies that have ended
            "cluster/supervisor/slot_files.py",  # which processes were started
            "cluster/parent/process_backend.py",  # a folder of sockets
            "cluster/fingerprint.py",  # the source of a module
            "cluster/targets.py",  # what is near a name that is not found
            "testing/simulation/files.py",  # a trace and a diagram, which the user named on pytest's command line
            "spark/batch/progress.py",  # what other tasks have kept: read without their lock
            "spark/executors/endpoints.py",  # a folder of addresses
            "spark/workers/slot.py",  # the token, in a file that the driver has made
            "spark/workers/code.py",  # aiostorm as a zip
            "spark/workers/slot_session.py",  # are the files for executors there?
            "spark/workers/backend.py",  # the token's file
            "spark/batch/push_server.py",  # the CA that the user named, for executors
            "spark/java.py",  # a JAVA_HOME in the user's cache
            "spark/sinks/parquet_store.py",  # the files of a sink
            "state/sinks/file_sink.py",  # the same
            "transport/net/bound_sockets.py",
            "transport/net/tls.py",  # the certificate that the user named
            "ui/assets.py",  # the files of the page, which come with the package
            "ui/process_logs.py",  # the output of processes of a cluster, in its folder
            "topology/config_layers.py",  # the settings' file, which the user named, before anything runs
            *PROGRAMS,
        ),
    ),
    "the loop's time": (
        (),  # `time` called on something that is called a loop
        (
            "runtime/clock.py",
            "actors/deadlines.py",  # gives it back to the loop: call_at
            "testing/*",  # virtual time itself
            *PROGRAMS,
        ),
    ),
}

PATH_METHODS: Final = ("chmod", "exists", "glob", "is_dir", "is_file", "lstat", "open", "rename", "resolve", "stat")
"""Methods of paths whose names others have too: they count in files that import pathlib."""

TASK_MAKERS: Final = (
    "actors/*",  # the guardian lives there
    "testing/simulation/incarnation.py",  # a simulated process's program, held by its incarnation
)
"""Modules that may start asyncio tasks by hand. Patterns."""

LOOP_OWNERS: Final = (*PROGRAMS, "spark/workers/slot.py")
"""Programs: they may start an event loop (a slot is the program of a Spark task, alone in its process).

Examples may under `if __name__ == "__main__"`."""

MAX_FILE_LINES: Final = 450
MAX_FUNCTION_LINES: Final = 60
