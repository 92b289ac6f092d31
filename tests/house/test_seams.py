"""The rule of the seams bites on every way out that is known, and leaves alone what looks like one."""

from __future__ import annotations

import pytest

from .seams import seams_only
from .source import Source

BAD = [
    # the time
    "import time\ntime.time()",
    "from time import monotonic",
    "from datetime import datetime\ndatetime.now()",
    "import datetime as d\nd.datetime.utcnow()",
    "from datetime import date\ndate.today()",
    "import asyncio\nasyncio.get_running_loop().time()",
    "self._loop.time()",
    "f(now=loop.time)",
    # chance
    "import os\nos.urandom(8)",
    "import os\nos.getrandom(8)",
    "import random\nrandom.Random(7)",
    "import random\nrandom.random()",
    "import secrets\nsecrets.token_bytes()",
    "import uuid\nuuid.uuid4()",
    "from uuid import uuid7",
    "import numpy as np\nnp.random.rand()",
    # the network
    "import socket",
    "import ssl",
    "import aiohttp\naiohttp.ClientSession()",
    "from aiohttp import web",
    "from http.server import HTTPServer",
    "import urllib.request",
    "import asyncio\nasyncio.open_connection(host, port)",
    "from asyncio import start_server as s\ns(f)",
    "import asyncio\nasyncio.open_unix_connection(path)",
    "import asyncio\nasyncio.start_unix_server(f)",
    "loop.create_connection(f, host)",
    "self.anything.create_server(f)",
    "loop.create_datagram_endpoint(f)",
    "connect = loop.sock_connect",
    "import selectors",
    # the disk
    "open(path)",
    "with open(path) as file:\n    pass",
    "import io\nio.open(path)",
    "import codecs\ncodecs.open(path)",
    "import os\nos.open(path, 0)",
    "from os import remove",
    "import os\nos.rename(a, b)",
    "import os\nos.mkdir(a)",
    "import os\nos.makedirs(a)",
    "import os\nos.listdir(a)",
    "import os\nos.path.exists(a)",
    "from os.path import getmtime",
    "import os\nos.an_unknown_function()",
    "from pathlib import Path\nPath(a).read_text()",
    "from pathlib import Path\nPath(a).write_bytes(b)",
    "path.write_text(b)",
    "path.mkdir(parents=True)",
    "path.unlink()",
    "path.touch()",
    "from pathlib import Path\npath.open()",
    "from pathlib import Path\npath.exists()",
    "import tempfile",
    "import shutil\nshutil.rmtree(a)",
    "import sqlite3",
    "import logging\nlogging.FileHandler(a)",
    "import logging.handlers",
    # processes
    "import subprocess",
    "from subprocess import Popen",
    "import asyncio\nasyncio.create_subprocess_exec(a)",
    "import asyncio\nasyncio.create_subprocess_shell(a)",
    "loop.subprocess_exec(f, a)",
    "import os\nos.fork()",
    "import os\nos.posix_spawn(a, b, c)",
    "import os\nos.execv(a, b)",
    "from os import spawnv",
    "import os\nos.system(a)",
    "import os\nos.popen(a)",
    "import os\nos.kill(1, 9)",
    "import multiprocessing",
    "from multiprocessing.shared_memory import SharedMemory",
    "from concurrent.futures import ProcessPoolExecutor",
    "import ctypes",
    "import signal\nsignal.signal(a, b)",
    # threads
    "import threading",
    "from concurrent.futures import ThreadPoolExecutor",
]

GOOD = [
    ("runtime/clock.py", "import time\ntime.time()\nloop.time()"),
    ("runtime/rng.py", "import os\nos.urandom(8)"),
    ("runtime/directory_store.py", "import os, fcntl\nos.open(path, 0)\nopen(path)"),
    (
        "runtime/processes/spawner.py",
        "import os, subprocess\nloop.subprocess_exec(f, subprocess.PIPE)\nos.killpg(1, 9)",
    ),
    ("testing/virtual_loop.py", "import selectors\nself.loop.time()"),
    ("aiostorm/cli/run.py", "import os\nfrom pathlib import Path\nPath(a).read_text()\nos.getcwd()\nloop.time()"),
    ("topology/config_layers.py", "from pathlib import Path\nPath(a).read_text()"),
    ("topology/a.py", "import random\ndef f(rng: random.Random) -> None: ..."),
    ("topology/a.py", "from random import Random\ndef f(rng: Random) -> None: ..."),
    ("topology/a.py", "self.clock.time.time()\nrandom.random()"),
    ("topology/a.py", "import uuid\nisinstance(x, uuid.UUID)"),
    ("topology/a.py", "import os\nos.environ\nos.path.join(a, b)\ndef f(path: os.PathLike[str]) -> None: ..."),
    ("topology/a.py", "from pathlib import Path\nPath(a).name\nPath(a) / b"),
    ("topology/a.py", "from datetime import datetime\ndatetime.fromtimestamp(clock.now())"),
    ("tasks/a.py", "spout.open(context, collector)\nself.open()\ndef open(): ..."),
    ("tasks/a.py", "self.clock.monotonic()\nself.watch.time()"),
    ("tasks/a.py", "import asyncio\nasyncio.sleep(1)\nloop.call_later(1, f)"),
    ("tasks/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket"),
]


@pytest.mark.parametrize("text", BAD)
def test_bites(text: str) -> None:
    faults = list(seams_only(Source.of(text, "cluster/a.py")))
    assert faults, "found nothing"
    assert all(fault.file == "cluster/a.py" and fault.line >= 1 and "Go through" in fault.message for fault in faults)


@pytest.mark.parametrize("name", ["runtime/clock.py", "runtime/rng.py", "runtime/stall.py"])
def test_a_seam_is_one_for_what_it_is_for(name: str) -> None:
    for text in ("open(path)", "import subprocess", "import socket", "import os\nos.fork()"):
        assert list(seams_only(Source.of(text, name))), text


@pytest.mark.parametrize(("name", "text"), GOOD)
def test_leaves_alone(name: str, text: str) -> None:
    assert not list(seams_only(Source.of(text, name)))
