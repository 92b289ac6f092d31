"""What leaves a cluster of real processes: no listener that others reach, no secret, no file that others may open.

One run with the defaults: nimbus, a supervisor, a topology, the page, and `aiostorm run --workers`. The mask for new
files is 0: what is private is private because it was made so.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from aiostorm.cluster.access import Role
from aiostorm.cluster.home import Home
from aiostorm.runtime import write_file
from aiostorm.transport import Credentials
from aiostorm.ui.app import ROUTES

from .test_cluster_real import until
from .test_workers_real import JOBS, ROOT

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

IN_SETTINGS = ("canary-of-a-password", "canary-of-a-url", "canary-of-an-argument")
"""What a topology is given. It stands in the file of settings, and in the store, from which its processes have it."""

TARGET = ("tests.cluster.secret_jobs:topology", f"API_KEY={IN_SETTINGS[2]}")
SETTINGS = f"db.password: {IN_SETTINGS[0]}\ndb.url: postgres://me:{IN_SETTINGS[1]}@db.example/x\n"

PAGE_TOKEN = "canary-of-the-page-0123456789abcdef"  # noqa: S105 - it is looked for
_LISTENS = "0A"


class Cluster:
    """The processes, each with its own folders for sockets and temporary files, and what they have said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "h")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.said: dict[str, bytes] = {}
        self.secrets: dict[str, Credentials] = {}
        for name in ("run", "tmp", "out"):
            (folder / name).mkdir(mode=0o700)
        self.environment = os.environ | {
            "AIOSTORM_HOME": str(self.home.path),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "TMPDIR": str(folder / "tmp"),
        }

    def prepare(self) -> None:
        """Secrets that are known here."""
        self.home.make()
        self.secrets["cluster"] = Credentials.new("cluster")
        write_file(self.home.credentials, self.secrets["cluster"].to_bytes())
        write_file(self.folder / "page.token", PAGE_TOKEN.encode())
        write_file(self.folder / "settings.yaml", SETTINGS.encode())

    def start(self, name: str, *words: str) -> None:
        log = os.open(self.folder / f"{name}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        command = [sys.executable, "-m", "aiostorm", *words]
        self.running[name] = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, env=self.environment, umask=0, stdin=subprocess.DEVNULL
        )
        os.close(log)

    async def command(self, *words: str) -> None:
        """Run it, and keep what it prints."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiostorm", *words),
            cwd=ROOT,
            env=self.environment,
            umask=0,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, f"{words}: {out.decode()}"
        self.said[" ".join(words)] = out

    def output(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def processes(self) -> dict[int, bytes]:
        """All that run, by their environments and open files → their command lines and environments."""
        found = {}
        mark = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    shown = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
                    if mark in shown or any(os.fsencode(os.readlink(fd)).startswith(mark) for fd in _open(entry)):
                        found[int(entry.name)] = shown
        return found

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _open(entry: Path) -> Iterator[Path]:
    return (entry / "fd").iterdir()


def listeners(pids: set[int]) -> set[tuple[str, int]]:
    """(address, port) of each TCP socket at which one of these processes listens."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in _open(Path(f"/proc/{pid}")):
                with contextlib.suppress(OSError):
                    inodes.add(os.readlink(fd))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                address, _, port = fields[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    """As the kernel prints it: words of 32 bits in the order of this machine."""
    words = (bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8))
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ipaddress.ip_address(packed))


def forms(secret: bytes) -> set[bytes]:
    """A secret as it is, and as it may be written."""
    plain = base64.b64encode(secret).rstrip(b"=")
    return {secret, secret.hex().encode(), plain, plain.replace(b"+", b"-").replace(b"/", b"_")}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="se") as folder:
        made = Cluster(Path(folder))
        made.prepare()
        try:
            yield made
        finally:
            made.end()


def test_nothing_that_leaves_a_cluster_is_open_or_secret(cluster: Cluster) -> None:
    asyncio.run(_run(cluster))


async def _run(cluster: Cluster) -> None:
    await _start(cluster)
    found = cluster.processes()
    assert len(found) >= 10, "daemons, the page, two parents, three workers, and processes that wait"
    at = listeners(set(found))
    assert at, "the page listens"
    assert [address for address, _ in at if not ipaddress.ip_address(address).is_loopback] == []
    await _ask(cluster)
    await _look_at(cluster)
    _search(cluster, found | cluster.processes())
    modes = _modes(cluster)
    assert {kind for kind, _ in modes.values()} >= {stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK}
    assert {path: oct(mode) for path, (_, mode) in modes.items() if mode & 0o077} == {}
    assert {oct(mode) for kind, mode in modes.values() if kind == stat.S_IFSOCK} == {"0o600"}


async def _start(cluster: Cluster) -> None:
    """All of it, with the defaults."""
    cluster.start("nimbus", "nimbus")
    cluster.start("supervisor", "supervisor")
    cluster.start("run", "run", "--workers", "1", f"{JOBS}:lasting", str(cluster.folder / "out"), "100", "0")
    for name, role in (("ann", "viewer"), ("root", "admin")):
        file = cluster.folder / f"{name}.token"
        await cluster.command("token", "add", name, "--role", role, "--out", str(file))
        cluster.secrets[name] = Credentials.from_file(file)
    settings = str(cluster.folder / "settings.yaml")
    await cluster.command("submit", "--name", "safe", "--config", settings, "--wait", "60", *TARGET)
    cluster.start("ui", "ui", "--ui", "0", "--ui-token-file", str(cluster.folder / "page.token"))

    async def all_run() -> bool:
        logs = cluster.home.logs("safe")
        return (
            "The page is at" in cluster.output("ui")
            and "has connected" in "".join(path.read_text() for path in logs.glob("worker-*.log"))
            and any((cluster.home.state("safe")).rglob("m-*.blob"))
            and any((cluster.folder / "out").iterdir())
        )

    await until("all of it runs", all_run)


async def _ask(cluster: Cluster) -> None:
    """What commands print: of who has the home folder, and of a client of nimbus."""
    nimbus = ("--nimbus", f"aiostorm://{cluster.home.nimbus_socket}")
    viewer = (*nimbus, "--token-file", str(cluster.folder / "ann.token"))
    admin = (*nimbus, "--token-file", str(cluster.folder / "root.token"))
    commands = [
        ("show", "safe"),
        ("show", "safe", "--json"),
        ("list", "--json"),
        ("nodes", "--json"),
        ("logs", "safe"),
        ("snapshots", str(cluster.home.state("safe")), "--json"),
        ("top", "safe", "--once", "--json"),
        ("show", "safe", "--json", *viewer),
        ("list", "--json", *viewer),
        ("logs", "safe", *viewer),
        ("token", "list", "--json", *admin),
    ]
    for at in range(0, len(commands), 4):
        await asyncio.gather(*(cluster.command(*words) for words in commands[at : at + 4]))
    assert b"db.password" in cluster.said["show safe"], "it is shown that there is a setting"


async def _look_at(cluster: Cluster) -> None:
    """What the page answers."""
    (url,) = re.findall(r"The page is at (http://[^ ]+/) ", cluster.output("ui"))
    headers = {"Authorization": f"Bearer {PAGE_TOKEN}"}
    names = {"component": "connects", "node": os.uname().nodename, "process": "worker-1", "trace": "0", "file": "x"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for route in ROUTES:
            if route.method != "GET" or route.role is Role.PUBLIC or route.path.endswith("/stream"):
                continue
            for topology in ("safe", "numbers"):
                known = names | {"name": topology}
                path = re.sub(r"\{(\w+)[^}]*\}", lambda match, known=known: known[match[1]], route.path)
                async with session.get(url + path.lstrip("/")) as response:
                    cluster.said[path] = await response.read()
                    assert response.status in ((404,) if "traces/0" in path else (200, 404, 409)), path
    assert b"db.password" in cluster.said["/api/v1/topologies/safe/config"]
    assert b"has connected" in cluster.said["/api/v1/cluster/topologies/safe/logs/worker-1"]


def _search(cluster: Cluster, processes: dict[int, bytes]) -> None:
    """Each secret is only where it belongs."""
    places = dict(cluster.said)
    places |= {f"output of {name}": (cluster.folder / f"{name}.out").read_bytes() for name in cluster.running}
    places |= {f"process {pid}": shown for pid, shown in processes.items()}
    for top in ("h", "run", "tmp"):
        places |= {str(path): path.read_bytes() for path in (cluster.folder / top).rglob("*") if path.is_file()}
    searched = {name: forms(each.token.reveal()) for name, each in cluster.secrets.items()}
    searched |= {text: forms(text.encode()) for text in (*IN_SETTINGS, PAGE_TOKEN)}
    belongs = {"cluster": [str(cluster.home.credentials)]}
    store = str(cluster.home.path / "cluster.db")
    for name, texts in searched.items():
        found = [place for place, data in places.items() if any(text in data for text in texts)]
        if name in IN_SETTINGS:
            assert found, "the store has the settings"
            found = [place for place in found if not place.startswith(store)]
        assert found == belongs.get(name, []), f"{name} is in {found}"


def _modes(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Kind and mode of each file of the cluster, and of its processes' sockets and temporary files."""
    paths = [cluster.home.path, *(path for top in ("h", "run", "tmp") for path in (cluster.folder / top).rglob("*"))]
    found = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            found[str(path)] = (stat.S_IFMT(mode), stat.S_IMODE(mode))
    return found
