"""Home: the folder of a cluster's daemons on one machine, and its files.

    HOME/cluster.db              the coordination store, if it is sqlite
    HOME/credentials             what proves that a process belongs to the cluster
    HOME/blobs/SHA256.blob       code that was submitted          HOME/code/SHA256/    the same, unpacked
    HOME/supervisors/ID/slots/   which processes run, for a supervisor that was restarted
    HOME/run/NAME/               the sockets of a topology        HOME/logs/NAME/      the output of its processes
    HOME/tokens                  who may order what of nimbus     HOME/audit.log       what was ordered
    HOME/nimbus/                 the socket of nimbus, and code that clients send to it
    HOME/state/NAME/             its snapshots, if it does not say where they are to be

1. All of it belongs to this user: folders have the mode 0700, files 0600.
2. A folder of a topology is named by its name as paths of the store are, that of its sockets by a hash: the path of a
   socket has about a hundred bytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from ..runtime import AiostormError, NewFile, make_folders
from ..transport import Credentials

VARIABLE: Final = "AIOSTORM_HOME"
STORE_VARIABLE: Final = "AIOSTORM_STORE"

MAX_PATH_BYTES: Final = 76
"""Of the folder: a socket's path has up to 104 bytes on macOS, and 26 come after this."""

_FOLDERS: Final = ("supervisors", "run", "logs", "state", "nimbus")
"""Made with the home folder, so that they are private as it is, whatever the umask."""

_SOCKETS: Final = 8
"""Characters of the hash of a name."""


class HomeError(AiostormError):
    """The folder cannot be used: why, and what to do."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a cluster on this machine."""

    path: Path

    @classmethod
    def default(cls, environment: Mapping[str, str] | None = None) -> Self:
        """AIOSTORM_HOME, else $XDG_STATE_HOME/aiostorm, else ~/.local/state/aiostorm."""
        environment = os.environ if environment is None else environment
        if given := environment.get(VARIABLE):
            return cls(Path(given).absolute())
        state = environment.get("XDG_STATE_HOME", "")
        return cls((Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "aiostorm")

    def make(self) -> None:
        """Make the folder, if it is not there. HomeError if it cannot be used, or others may use it."""
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise HomeError(
                f"{self.path} is too long for sockets in it ({len(os.fsencode(self.path))} bytes, at most "
                f"{MAX_PATH_BYTES}): choose a shorter one with --home or {VARIABLE}"
            )
        try:
            make_folders(str(self.path), mode=0o700)
            for name in _FOLDERS:
                make_folders(str(self.path / name), mode=0o700)
            found = self.path.stat()
        except OSError as error:
            raise HomeError(
                f"{self.path} cannot be used: {error.strerror or error}; choose another one with --home or {VARIABLE}"
            ) from error
        if os.name != "nt" and found.st_uid != os.geteuid():
            raise HomeError(f"{self.path} belongs to another user: choose another one with --home or {VARIABLE}")
        if os.name != "nt" and stat.S_IMODE(found.st_mode) & 0o077:
            raise HomeError(f"others may access {self.path}: chmod 700 {self.path}")

    @property
    def store_url(self) -> str:
        """The coordination store of a cluster of this machine."""
        return f"sqlite:{quote(str(self.path))}/cluster.db"

    @property
    def credentials(self) -> Path:
        """The file with the credentials. Not necessarily there."""
        return self.path / "credentials"

    def make_credentials(self) -> Path:
        """The file with the credentials; they are made if there are none. HomeError."""
        try:
            with NewFile(f"{self.credentials}.{os.getpid()}") as new:
                new.write(Credentials.new("cluster").to_bytes())
                new.sync()
                new.link(self.credentials)  # those that are there stay
        except OSError as error:
            raise HomeError(f"{self.credentials} cannot be made: {error.strerror or error}") from error
        return self.credentials

    @property
    def tokens(self) -> Path:
        """The tokens of those who may ask nimbus. Not necessarily there."""
        return self.path / "tokens"

    @property
    def audit(self) -> Path:
        """What was ordered of the cluster from this machine."""
        return self.path / "audit.log"

    @property
    def nimbus(self) -> Path:
        """The folder of what clients send to nimbus, and of its socket."""
        return self.path / "nimbus"

    @property
    def nimbus_socket(self) -> str:
        """Where nimbus answers clients, unless it is given another address."""
        return f"unix:{self.nimbus / 'socket'}"

    @property
    def blobs(self) -> Path:
        """Submitted code, if the cluster has no other place for it."""
        return self.path / "blobs"

    def code(self, blob: str) -> Path:
        """Where the code of this SHA-256 is unpacked."""
        return self.path / "code" / blob

    def slots(self, supervisor: str) -> Path:
        """The slot files of a supervisor."""
        return self.path / "supervisors" / quote(supervisor, safe="") / "slots"

    def sockets(self, topology: str) -> Path:
        """The folder of a topology's sockets."""
        return self.path / "run" / hashlib.sha256(topology.encode()).hexdigest()[:_SOCKETS]

    def socket(self, topology: str, process: str) -> str:
        """The address of a process of a topology: `parent`, or the name of a worker."""
        return f"unix:{self.sockets(topology) / process}"

    def parent_address(self, topology: str) -> Path:
        """The file that says where the parent of a topology listens, if its processes are on several machines."""
        return self.sockets(topology) / "parent.address"

    def state(self, topology: str) -> Path:
        """The folder of a topology's snapshots."""
        return self.path / "state" / quote(topology, safe="")

    def logs(self, topology: str) -> Path:
        """The folder of the logs of a topology's processes."""
        return self.path / "logs" / quote(topology, safe="")

    def log(self, topology: str, process: str) -> Path:
        """The log of a process of a topology."""
        return self.logs(topology) / f"{process}.log"
