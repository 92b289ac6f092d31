"""Environments: one for each peer, made by the harness, under benchmarks/.envs/ (which git ignores).

1. What is installed is pinned in `PEERS`. An environment is used again while its pins, as written into it, are these.
2. A peer that cannot be installed, or not be imported, on the Python that runs the harness is tried on the other
   Pythons of this machine. None is downloaded.
3. What cannot be had is reported with its reason (UnavailableError); it stops nothing else.
4. An environment that was not finished has no pins written into it, and is made anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parent / ".envs"
INSTALL_LIMIT_S = 300.0
PYTHONS = ("3.12", "3.13", "3.11")
"""What is tried, after the one that runs."""


class UnavailableError(Exception):
    """A peer cannot be had on this machine. The text is the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What to install, and what must be importable then."""

    pins: tuple[str, ...]
    module: str

    @property
    def shown(self) -> str:
        """Name and version, for tables."""
        return " ".join(self.pins[0].split("=="))


PEERS = {
    "bytewax": Peer(("bytewax==0.21.1",), "bytewax.dataflow"),
    "pathway": Peer(("pathway==0.33.0",), "pathway"),
    "streamz": Peer(("streamz==0.6.6",), "streamz"),
    "xoscar": Peer(("xoscar==0.12.2", "uvloop==0.23.0"), "xoscar"),
    "pykka": Peer(("pykka==4.5.0",), "pykka"),
    "thespian": Peer(("thespian==4.0.1",), "thespian.actors"),
    "faust": Peer(("faust-streaming==0.15.3",), "faust"),
}


def python_of(name: str, say: Callable[[str], None], *, peers: Mapping[str, Peer] = PEERS, home: Path = HOME) -> Path:
    """The Python of a peer's environment, made if need be. UnavailableError if it cannot be had."""
    peer = peers[name]
    folder = home / name
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    written = folder / "pins.json"
    if written.exists() and python.exists() and json.loads(written.read_text(encoding="utf-8")) == list(peer.pins):
        return python
    uv = _uv()
    reasons = []
    for shown, base in interpreters():
        say(f"{name}: installing {', '.join(peer.pins)} for {shown}, in {INSTALL_LIMIT_S:g} s at most")
        try:
            _make(uv, folder, base, python, peer)
        except _StepError as error:
            say(f"{name}: not for {shown}: {error}")
            reasons.append(f"{shown}: {error}")
            continue
        written.write_text(json.dumps(list(peer.pins)), encoding="utf-8")
        return python
    raise UnavailableError("; ".join(reasons))


def interpreters() -> Iterator[tuple[str, str]]:
    """(name, program): the Python that runs, then what there is of `PYTHONS` and really starts.

    A shim of pyenv does not start while its version is not selected, so pyenv's own folder is looked into as well.
    """
    yield "this Python", sys.executable
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in PYTHONS:
        found = (shutil.which(f"python{version}"), *sorted(map(str, root.glob(f"versions/{version}.*/bin/python"))))
        for program in filter(None, found):
            if program != sys.executable and _starts(program):
                yield f"Python {version}", program
                break


def _starts(program: str) -> bool:
    try:
        done = subprocess.run([program, "-c", ""], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class _StepError(Exception):
    """One step of making an environment failed."""


def _make(uv: Sequence[str], folder: Path, base: str, python: Path, peer: Peer) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _step([*uv, "venv", "--quiet", "--no-project", "--no-python-downloads", "--python", base, str(folder)])
    _step([*uv, "pip", "install", "--quiet", "--python", str(python), *peer.pins])
    _step([str(python), "-c", f"import {peer.module}"])


def _step(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _StepError(f"not done after {INSTALL_LIMIT_S:g} s") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise _StepError(lines[-1][:200] if lines else f"exit code {done.returncode}")


def _uv() -> list[str]:
    """How uv is called: as a module of this Python, or as a program."""
    found = subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True, check=False)
    if found.returncode == 0:
        return [sys.executable, "-m", "uv"]
    program = shutil.which("uv")
    if program is None:
        raise UnavailableError("uv, which makes the environments of peers, is not here: pip install uv")
    return [program]
