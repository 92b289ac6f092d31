"""PythonSpawner and parent watches, with real processes; lines without any."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.runtime import SpawnError
from aiostorm.runtime.processes import ChildLine, PythonSpawner, die_with_parent
from aiostorm.runtime.processes.parent_watch import PARENT_WATCH
from aiostorm.runtime.processes.spawner import MAX_STDIN_BYTES, Lines

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and process groups")
PATIENCE_S = 30


class Nursery:
    """Writes modules, starts them as children, records their output."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[ChildLine] = []
        self.environment = {**os.environ, "PYTHONPATH": str(path)}

    def spawner(self, code: str) -> PythonSpawner:
        (self.path / "a_child.py").write_text(textwrap.dedent(code), encoding="utf-8")
        return PythonSpawner("a_child", self.lines.append)

    def printed(self, stream: str = "stdout") -> list[str]:
        return [line.text for line in self.lines if line.stream == stream]


@pytest.fixture
def nursery(tmp_path: Path) -> Nursery:
    return Nursery(tmp_path)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    caller = Caller()
    caller.server = await asyncio.start_server(caller.took, "127.0.0.1", 0)
    yield caller
    caller.server.close()
    for _, writer in caller.calls:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    await caller.server.wait_closed()


class Caller:
    """Descendants connect to it: it learns their pids, and when they have ended."""

    def __init__(self) -> None:
        self.server: asyncio.Server
        self.calls: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._came = asyncio.Event()
        self._accepted = 0

    def took(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls.append((reader, writer))
        self._came.set()

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    async def next(self) -> tuple[asyncio.StreamReader, int]:
        """(line, pid) of the next process that connects."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.calls) <= self._accepted:
                self._came.clear()
                await self._came.wait()
            reader, _ = self.calls[self._accepted]
            self._accepted += 1
            return reader, int(await reader.readline())

    async def wait_closed(self, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""


CALL = """
import os, socket
def call(port):
    line = socket.create_connection(("127.0.0.1", int(port)))
    line.sendall(b"%d\\n" % os.getpid())
    return line
"""


# -- children ----------------------------------------------------------------------------------------------------------


@pytest.mark.sockets
async def test_a_child_is_given_its_arguments_as_they_are(nursery: Nursery) -> None:
    spawner = nursery.spawner("import sys; print(*sys.argv[1:], sep='\\n'); sys.exit(7)")
    arguments = ["worker", "--port", "$HOME; echo", "a b", "", "*", "ä"]
    child = await spawner.spawn("w", arguments, environment=nursery.environment)
    assert child.name == "w"
    assert child.pid > 0
    assert await child.wait() == 7
    assert await child.wait() == 7, "it may be asked at any time"
    assert nursery.printed() == arguments
    assert {(line.name, line.pid) for line in nursery.lines} == {("w", child.pid)}
    child.terminate()
    child.kill()


@pytest.mark.sockets
async def test_all_lines_are_reported_before_the_end(nursery: Nursery) -> None:
    spawner = nursery.spawner("""
        import sys
        for number in range(3000):
            print(number)
        print("to the other", file=sys.stderr)
        sys.stdout.write("no end of line, ä")
    """)
    child = await spawner.spawn("w", [], environment=nursery.environment)
    assert await child.wait() == 0
    assert nursery.printed() == [*map(str, range(3000)), "no end of line, ä"]
    assert nursery.printed("stderr") == ["to the other"]


@pytest.mark.sockets
async def test_a_child_inherits_no_standard_input_or_environment(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = nursery.spawner("""
        import os, sys
        print(repr(sys.stdin.read()), os.environ.get("A_WORD"), os.getpgrp() == os.getpid())
    """)
    monkeypatch.setenv("A_WORD", "ours")
    child = await spawner.spawn("w", [], environment=nursery.environment)
    assert await child.wait() == 0
    monkeypatch.setenv("PYTHONPATH", str(nursery.path))
    child = await spawner.spawn("w", [])
    assert await child.wait() == 0
    assert nursery.printed() == ["'' None True", "'' ours True"]


@pytest.mark.sockets
async def test_a_child_reads_what_it_is_given_and_then_the_end(nursery: Nursery) -> None:
    spawner = nursery.spawner("""
        import hashlib, sys
        print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())
    """)
    for data in (b"a token\n", bytes(range(256)) * 256):
        child = await spawner.spawn("w", [], environment=nursery.environment, stdin=data)
        assert await child.wait() == 0
        assert nursery.printed()[-1] == hashlib.sha256(data).hexdigest()
    with pytest.raises(SpawnError, match="65,537 bytes for its standard input, but at most 65,536 are allowed"):
        await spawner.spawn("w", [], environment=nursery.environment, stdin=bytes(MAX_STDIN_BYTES + 1))


@pytest.mark.sockets
async def test_a_child_need_not_read_what_it_is_given(nursery: Nursery) -> None:
    descriptors: list[int] = []
    for _ in range(3):
        child = await nursery.spawner("").spawn("w", [], environment=nursery.environment, stdin=bytes(MAX_STDIN_BYTES))
        assert await child.wait() == 0
        for _ in range(10):
            await asyncio.sleep(0)  # uvloop closes its pipes a little later
        descriptors.append(len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0)
    assert descriptors[0] == descriptors[2]
    assert nursery.lines == []


@POSIX
@pytest.mark.sockets
async def test_terminate_asks_and_kill_does_not(nursery: Nursery, caller: Caller) -> None:
    spawner = nursery.spawner(
        CALL
        + """
import signal, sys
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
line = call(sys.argv[1])
line.recv(1)
"""
    )
    child = await spawner.spawn("w", [str(caller.port), "polite"], environment=nursery.environment)
    await caller.next()
    child.terminate()
    assert await child.wait() == -signal.SIGTERM

    child = await spawner.spawn("w", [str(caller.port), "deaf"], environment=nursery.environment)
    await caller.next()
    child.terminate()
    child.kill()
    assert await child.wait() == -signal.SIGKILL


@POSIX
@pytest.mark.sockets
async def test_kill_takes_what_the_child_has_started(nursery: Nursery, caller: Caller) -> None:
    spawner = nursery.spawner(
        CALL
        + """
import subprocess, sys
if sys.argv[2:]:
    call(sys.argv[1]).recv(1)
else:
    subprocess.run([sys.executable, "-m", "a_child", sys.argv[1], "grandchild"])
"""
    )
    child = await spawner.spawn("w", [str(caller.port)], environment=nursery.environment)
    line, pid = await caller.next()
    assert pid != child.pid
    child.kill()
    await caller.wait_closed(line)
    assert await child.wait() == -signal.SIGKILL


@POSIX
@pytest.mark.sockets
async def test_the_end_is_reported_though_a_grandchild_keeps_the_output_open(nursery: Nursery, caller: Caller) -> None:
    spawner = nursery.spawner(
        CALL
        + """
import subprocess, sys
if sys.argv[2:]:
    call(sys.argv[1]).recv(1)
else:
    print("the last line", end="")
    subprocess.Popen([sys.executable, "-m", "a_child", sys.argv[1], "grandchild"])
"""
    )
    child = await spawner.spawn("w", [str(caller.port)], environment=nursery.environment)
    async with asyncio.timeout(PATIENCE_S):
        assert await child.wait() == 0
    assert nursery.printed() == ["the last line"]
    await caller.next()  # it lives on; the test's end hangs up


@pytest.mark.sockets
async def test_a_wait_may_be_cancelled(nursery: Nursery) -> None:
    child = await nursery.spawner("import time; time.sleep(60)").spawn("w", [], environment=nursery.environment)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await child.wait()
    child.kill()
    assert await child.wait() != 0


@pytest.mark.sockets
async def test_a_child_that_cannot_be_started(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    spawner = nursery.spawner("")
    for arguments, environment in ((["a\0b"], {}), ([], {"a": "b\0c"})):
        with pytest.raises(SpawnError, match=r"w: .* contains a NUL"):
            await spawner.spawn("w", arguments, environment=nursery.environment | environment)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    descriptors: list[int] = []
    for _ in range(3):
        with pytest.raises(SpawnError, match="No such file"):
            await spawner.spawn("w", [], environment=nursery.environment)
        for _ in range(10):
            await asyncio.sleep(0)  # uvloop closes its pipes a little later
        descriptors.append(len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0)
    assert descriptors[0] == descriptors[2], "nothing is left open (uvloop opens the null device once)"
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SpawnError, match="embedded"):
        await spawner.spawn("w", [], environment=nursery.environment)


@pytest.mark.sockets
async def test_a_line_that_cannot_be_taken_stops_no_other(nursery: Nursery) -> None:
    lines_read: list[str] = []
    complaints: list[object] = []

    def picky(line: ChildLine) -> None:
        if line.text == "1":
            raise KeyError("one")
        lines_read.append(line.text)

    nursery.spawner("print(0); print(1); print(2)")
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["exception"]))
    child = await PythonSpawner("a_child", picky).spawn("w", [], environment=nursery.environment)
    assert await child.wait() == 0
    assert lines_read == ["0", "2"]
    assert [type(complaint) for complaint in complaints] == [KeyError]


# -- parent watches ----------------------------------------------------------------------------------------------------

FAMILY = (
    CALL
    + """
import asyncio, ctypes, os, sys, threading
from aiostorm.runtime.processes import PythonSpawner, die_with_parent

def child(port, how):
    assert die_with_parent()
    assert not die_with_parent()
    line = call(port)
    if how == "holds-the-interpreter":
        ctypes.PyDLL(None).pause()
    line.recv(1)

async def parent(port, how):
    child = await PythonSpawner("a_child", print).spawn("c", [port, how, "child"])
    await child.wait()

_, port, how, role = sys.argv
if role == "child":
    child(port, how)
elif how == "from-a-thread":
    thread = threading.Thread(target=lambda: asyncio.run(parent(port, how)))
    thread.start()
    thread.join()
else:
    asyncio.run(parent(port, how))
"""
)


@POSIX
@pytest.mark.sockets
@pytest.mark.parametrize(
    "how",
    [
        "from-the-main-thread",
        "from-a-thread",
        pytest.param("holds-the-interpreter", marks=pytest.mark.skipif(sys.platform != "linux", reason="the kernel")),
    ],
)
async def test_a_child_dies_with_its_parent(nursery: Nursery, caller: Caller, how: str) -> None:
    parent = await nursery.spawner(FAMILY).spawn(
        "p", [str(caller.port), how, "parent"], environment=nursery.environment
    )
    line, pid = await caller.next()
    assert pid != parent.pid
    os.kill(parent.pid, signal.SIGKILL)  # the parent only: no group, no goodbye
    await caller.wait_closed(line)
    await parent.wait()


@POSIX
@pytest.mark.sockets
async def test_a_child_lives_on_when_the_thread_that_started_it_ends(nursery: Nursery, caller: Caller) -> None:
    spawner = nursery.spawner(
        CALL
        + """
import asyncio, sys, threading
from aiostorm.runtime.processes import PythonSpawner, die_with_parent
_, port, role = sys.argv
if role == "child":
    die_with_parent()
    call(port).recv(1)
    print("hung up")
else:
    children = []
    async def parent():
        children.append(await PythonSpawner("a_child", print).spawn("c", [port, "child"]))
        children.append(asyncio.get_running_loop())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(parent()))
    thread.start()
    thread.join()
    line = call(port)
    line.recv(1)
    loop.run_until_complete(children[0].wait())
"""
    )
    parent = await spawner.spawn("p", [str(caller.port), "parent"], environment=nursery.environment)
    await caller.next()
    await caller.next()
    for _, writer in caller.calls:
        writer.close()
    assert await parent.wait() == 0
    assert [line.text for line in nursery.lines if "hung up" in line.text]


def test_a_process_without_a_spawner_has_no_parent_watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not die_with_parent()
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setenv(PARENT_WATCH, f"{file.fileno()} 1 1")
        assert not die_with_parent(), "what is there is no pipe: the variable is not for this process"
    assert PARENT_WATCH not in os.environ


# -- lines -------------------------------------------------------------------------------------------------------------


@given(
    lines=st.lists(st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=30)),
    sizes=st.lists(st.integers(1, 9), min_size=1),
    max_bytes=st.integers(4, 20),
)
def test_lines_are_put_together(lines: list[str], sizes: list[int], max_bytes: int) -> None:
    split = Lines(max_bytes)
    data = "".join(f"{line}\n" for line in lines).encode()
    lines_read: list[str] = []
    while data:
        size = sizes[len(lines_read) % len(sizes)]
        lines_read += split.feed(data[:size])
        data = data[size:]
        assert len(split._rest) <= max_bytes
    assert split.end() == []
    assert all(len(piece.encode()) <= max_bytes for piece in lines_read), "no character is cut either"
    assert "".join(lines_read) == "".join(lines)
    if all(len(line.encode()) <= max_bytes for line in lines):
        assert lines_read == lines


def test_bytes_that_are_no_text_are_reported_too() -> None:
    split = Lines(4)
    assert split.feed(b"\xff\xfe\r\n") == ["\\xff\\xfe"]
    assert split.feed(b"\x80" * 5) == ["\\x80"]
    assert split.end() == ["\\x80" * 4]
