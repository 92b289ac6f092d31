"""DirectoryStore: a store whose blobs are files in a directory that only its owner can read.

    write   temporary file → fsync → rename over the blob          sync   fsync of the appended files
    append  to the blob's file, kept open until sync                      fsync of the directory

1. All work is done in one thread of the store (threaded_store.py).
2. The directory has mode 0700, files 0600, whatever the umask; symbolic links are not followed.
3. A directory is used by one store at a time: a second one, in this process or another, gets a StoreError (except on
   Windows, which has no flock). A `shared` store is for a process that works for the owner of the directory: it takes
   no lock, removes nothing of others, and does not make the directory. Two that write a blob at the same time do not
   mix: one of them is the last. Appends have one writer at a time.
   A directory with files that are not of a store is refused: it would become private, and it is probably a mistake.
4. Temporary files of an interrupted write are removed when the directory is opened, at the first call.
5. A failed call changes nothing: a full disk is a StoreError, and the store can still be used. A failed `sync` ends it.
6. A blob is the file `<name>.blob`, so the names `.` and `..` are harmless. If the file system does not distinguish `A`
   and `a`, neither does the store: use lower case.

From: "Files are hard" (what fsync and rename promise); the habits of SQLite and LevelDB.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Final

from .errors import StoreError, StorePlaceError
from .files import OPEN_FLAGS, NewFile, make_folders, sync_file, sync_folder, write_all
from .process_identity import ProcessIdentity
from .store import MAX_BLOB_BYTES
from .threaded_store import ThreadedStore, check_size

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_BLOB: Final = ".blob"
_TEMPORARY: Final = ".new"
_LOCK: Final = "lock"
_MAX_OPEN: Final = 32
_HARMLESS: Final = "lost+found"  # at the top of a file system


class DirectoryStore(ThreadedStore):
    """A directory of blobs (see the module). It is opened at the first call; `close` releases the directory.

    `shared`: another store is its owner, in this process or another.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = MAX_BLOB_BYTES, shared: bool = False) -> None:
        path = os.path.abspath(path)
        super().__init__(_DirectoryFiles(path, max_bytes, shared=shared), path, max_bytes)


class _DirectoryFiles:
    """The file operations, in the store's thread. They are BlobFiles."""

    def __init__(self, path: str, max_bytes: int, *, shared: bool) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._shared = shared
        self._lock_fd: int | None = None
        self._appended: dict[str, int] = {}  # name → file descriptor, until the next sync
        self._renamed = False  # the directory must be synced
        self._broken: str | None = None

    # -- operations --------------------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        with self._working(f"read {name}"):
            try:
                fd = os.open(self._file(name), os.O_RDONLY | OPEN_FLAGS)
            except FileNotFoundError:
                return None
            with open(fd, "rb") as file:
                data = file.read(self._max_bytes + 1)
        check_size(self._path, name, len(data), self._max_bytes)
        return data

    def write(self, name: str, data: bytes) -> None:
        check_size(self._path, name, len(data), self._max_bytes)
        own = f".{ProcessIdentity.own()}-{id(self)}" if self._shared else ""  # another process may write it, too
        temporary = os.path.join(self._path, name + own + _TEMPORARY)
        with self._working(f"write {name}"):
            with NewFile(temporary) as new:
                new.write(data)
                new.sync()
                self._close_appended(name)  # before the rename: Windows cannot replace an open file
                new.replace(self._file(name))
            self._renamed = True

    def append(self, name: str, data: bytes) -> None:
        with self._working(f"append to {name}"):
            fd = self._open_for_append(name)
            size_bytes = os.fstat(fd).st_size
            check_size(self._path, name, size_bytes + len(data), self._max_bytes)
            try:
                write_all(fd, data)
            except OSError:
                self._truncate(name, fd, size_bytes)
                raise

    def remove(self, name: str) -> None:
        with self._working(f"remove {name}"):
            self._close_appended(name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file(name))
                self._renamed = True

    def names(self, prefix: str) -> list[str]:
        with self._working("list the blobs"), os.scandir(self._path) as entries:
            found = [entry.name.removesuffix(_BLOB) for entry in entries if entry.name.endswith(_BLOB)]
        return sorted(name for name in found if name.startswith(prefix))

    def sync(self) -> None:
        with self._working("sync"):
            try:
                for name in list(self._appended):
                    self._sync_appended(name)
                if self._renamed:
                    sync_folder(self._path)
                    self._renamed = False
            except OSError as error:
                self._broken = f"a sync failed ({error}), and data written since the last sync may be lost"
                raise

    def close(self) -> None:
        for name in list(self._appended):
            self._close_appended(name)
        if self._lock_fd is not None:
            os.close(self._lock_fd)  # this releases the lock
            self._lock_fd = None

    # -- files -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _working(self, what: str) -> Iterator[None]:
        if self._broken is not None:
            raise StoreError(
                f"{self._path}: {self._broken}. Check the disk; then open the store again and read its content"
            )
        try:
            if self._shared:
                self._check_there()
            elif self._lock_fd is None:
                self._open()
            yield
        except OSError as error:
            raise StoreError(f"{self._path}: cannot {what}: {_explained(error)}") from error

    def _check_there(self) -> None:
        if not os.path.isdir(self._path):
            raise StoreError(
                f"{self._path} does not exist on this machine. Its owner makes it: is it on another machine? Then use "
                "a URL that all machines reach"
            )

    def _open(self) -> None:
        try:
            make_folders(self._path, mode=0o700)
        except OSError as error:
            raise _unusable(self._path, error) from error
        self._check_own()
        try:
            if os.stat(self._path).st_mode & 0o077:
                os.chmod(self._path, 0o700)
            lock_fd = os.open(os.path.join(self._path, _LOCK), os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o600)
        except OSError as error:
            raise _unusable(self._path, error) from error
        try:
            if fcntl is not None:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with os.scandir(self._path) as entries:
                unfinished = [entry.path for entry in entries if entry.name.endswith(_TEMPORARY)]
            for path in unfinished:
                os.unlink(path)
        except BlockingIOError:
            os.close(lock_fd)
            raise StoreError(
                f"{self._path} is in use by another store, in this process or another. Close that store, or "
                "use another directory"
            ) from None
        except OSError:
            os.close(lock_fd)
            raise
        self._lock_fd = lock_fd

    def _check_own(self) -> None:
        """StoreError for a directory with files of others, unless a store has used it before."""
        try:
            names = os.listdir(self._path)
        except OSError as error:
            raise _unusable(self._path, error) from error
        strange = sorted(name for name in names if not (name.endswith((_BLOB, _TEMPORARY)) or name.startswith(".")))
        if strange and _LOCK not in strange and strange != [_HARMLESS]:
            more = ", …" if len(strange) > 1 else ""
            raise StorePlaceError(
                f"{self._path} has files of others in it ({strange[0]:.100}{more}), and what is written here needs a "
                f"folder of its own, which only this user may read. Use a new folder: "
                f"{os.path.join(self._path, 'state')}"
            )

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name + _BLOB)

    def _open_for_append(self, name: str) -> int:
        if name in self._appended:
            return self._appended[name]
        if len(self._appended) >= _MAX_OPEN:
            self._sync_early(next(iter(self._appended)))
        try:
            fd = os.open(self._file(name), os.O_WRONLY | os.O_APPEND | OPEN_FLAGS)
        except FileNotFoundError:
            fd = os.open(self._file(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS, 0o600)
            self._renamed = True
        self._appended[name] = fd
        return fd

    def _truncate(self, name: str, fd: int, size_bytes: int) -> None:
        try:
            os.ftruncate(fd, size_bytes)
        except OSError as error:
            self._broken = f"data appended to {name} was written only partly and cannot be removed ({error})"

    def _sync_early(self, name: str) -> None:
        try:
            self._sync_appended(name)
        except OSError as error:
            self._broken = f"data appended to {name} may be lost ({error})"
            raise

    def _sync_appended(self, name: str) -> None:
        # fsync the descriptor that was written to: a newly opened one might not report a failed write.
        sync_file(self._appended[name])
        self._close_appended(name)

    def _close_appended(self, name: str) -> None:
        fd = self._appended.pop(name, None)
        if fd is not None:
            os.close(fd)


def _unusable(path: str, error: OSError) -> StoreError:
    """Why a directory cannot be made or used as a store, and what to do."""
    culprit = error.filename if isinstance(error.filename, str) else path
    parent = os.path.dirname(culprit)
    exists = os.path.isdir(path)
    match error.errno:
        case errno.EEXIST | errno.ENOTDIR:
            file = culprit if os.path.lexists(culprit) else parent
            why = f"{'it' if file == path else file} is a file. Use another folder, or move the file away"
        case errno.EACCES | errno.EPERM if exists:
            why = "this user may not write there, or does not own it. Use a folder of this user's own, or chown it"
        case errno.EACCES | errno.EPERM:
            why = (
                f"this user may not write in {parent}. Use another folder, or make it and give it to this user (chown)"
            )
        case errno.EROFS:
            why = "its file system is read-only. Use a folder on another one, or mount it so that it can be written"
        case errno.ENOENT:
            why = f"no folder can be made in {parent}. Use another one"
        case _:
            return StoreError(f"{path}: the folder cannot be {'used' if exists else 'made'}: {_explained(error)}")
    return StorePlaceError(f"{path} cannot be {'used' if exists else 'made'} as a folder: {why}")


def _explained(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            hint = "the disk or quota is full: free some space, then try again; nothing was changed"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            hint = "the directory must belong to this user and be writable"
        case errno.EMFILE | errno.ENFILE:
            hint = "too many files are open: raise the limit (ulimit -n)"
        case errno.ELOOP:
            hint = "there is a symbolic link in the place of a file of the store: remove it"
        case errno.EIO:
            hint = "the disk fails: check the system's log"
        case _:
            hint = "nothing was changed"
    return f"{error.strerror or error}: {hint}"
