"""Token file: the tokens of a cluster on this machine, read again when they change.

1. The file belongs to this user and has the mode 0600, or nothing of it is used (CredentialsError).
2. It is looked at again after LOOK_S at most: what is revoked is refused from then on. It is small and on a local disk.
3. A file that is not there has no tokens. One that cannot be read has none either, until it can: what it had before
   does not count.
4. Two that change it at once: each holds the lock of the file beside it while it reads, changes and replaces.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...runtime import OPEN_FLAGS, LoopClock, write_file
from ...transport import Credentials, CredentialsError, Secret, read_private
from .tokens import MAX_FILE_BYTES, Tokens

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from ...runtime import Clock
    from .roles import Role
    from .tokens import Holder

log = logging.getLogger("aiostorm.access")

LOOK_S: Final = 1.0


class TokenFile:
    """The file at this path. Not necessarily there. `clock`: None: that of the running loop, when it is used."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._given_clock = clock
        self._tokens = Tokens()
        self._looked_s = float("-inf")
        self._stamp: tuple[int, int, int] | None = None
        self._problem = ""

    @property
    def _clock(self) -> Clock:
        """The time: of the loop in which it is used, which may begin after this was made."""
        if self._given_clock is None:
            self._given_clock = LoopClock()
        return self._given_clock

    @property
    def tokens(self) -> Tokens:
        """Those that are valid or have ended, as the file had them a second ago or later."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._look()
        return self._tokens

    def check(self, text: str) -> Holder | None:
        """Who has the token with this text, `NAME.…`; None: it is none, or not valid any more."""
        try:
            token = Credentials.from_bytes(text.encode("utf-8", "surrogateescape"))
        except CredentialsError:
            token = Credentials("none", Secret(bytes(32)))  # a comparison is made all the same
        return self.tokens.check(token, self._clock.now())

    def read(self) -> Tokens:
        """Read it now. CredentialsError, if it cannot be used."""
        if not self.path.exists():
            return Tokens()
        return Tokens.from_bytes(read_private(self.path, MAX_FILE_BYTES + 1), str(self.path))

    def add(self, token: Credentials, role: Role, lasts_s: float | None = None) -> None:
        """Add a token. CredentialsError, OSError; ValueError if its name is taken."""
        self._change(lambda tokens: tokens.with_one(token, role, self._clock.now(), lasts_s))

    def revoke(self, name: str) -> None:
        """Remove a token. CredentialsError, OSError; ValueError if there is none of this name."""
        self.read().without(name)  # where there is none, nothing is made
        self._change(lambda tokens: tokens.without(name))

    def _change(self, change: Callable[[Tokens], Tokens]) -> None:
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another one holds it for a moment only
            write_file(self.path, change(self.read()).to_bytes())
            self._looked_s = float("-inf")  # in this process it is valid at once
        finally:
            os.close(lock)

    def _look(self) -> None:
        try:
            stamp = self._stamp_now()
            if stamp is None:
                self._tokens = Tokens()
            elif stamp != self._stamp:
                self._tokens = self.read()
            self._stamp, self._problem = stamp, ""
        except (CredentialsError, OSError) as error:
            if self._problem != str(error):
                log.error("no token is accepted: %s", error)
            self._tokens, self._stamp, self._problem = Tokens(), None, str(error)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
