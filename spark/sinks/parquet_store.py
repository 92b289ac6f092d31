"""File store: stores the sink's files. A file exists completely or not at all.

    local, HDFS, …:  bytes ─▶ .aiostorm-tmp/<token>-<n>.tmp ─▶ (fsync) ─▶ renamed
    object stores:   bytes ─▶ one put

1. `put` returns when the file is durable under its name. An existing file of this name has the same contents
   (parquet_names.py): nothing is written.
2. Local files are synced, and so are their folders.
3. `sweep` removes temporary files that are older than any write takes. The current time is that of the file system: a
   wrong clock on this machine does no harm. Files of running jobs are younger.
4. Paths with a scheme go through fsspec (memory://, s3://, gs://, hdfs://, …), which has a driver for each.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

from ...runtime import NewFile, make_folders, sync_folder
from ..errors import SinkError
from .parquet_names import PENDING_FOLDER, TEMPORARY_FOLDER, is_stale, temporary_name

_ATOMIC = frozenset({"memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2"})
"""Protocols with atomic puts."""


class FileStore(Protocol):
    """Files below one path. Blocking."""

    root: str

    def put(self, name: str, data: Any) -> str:
        """Write `<folder>/<name>` if it does not exist. Returns its full path. OSError, SinkError."""
        ...

    def sweep(self) -> int:
        """Remove stale files of crashes; returns their number. OSError if nothing can be written here."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one. OSError, SinkError."""
        ...

    def read(self, name: str, most: int) -> bytes | None:
        """The contents of a file; None if it does not exist. SinkError if it is longer than `most`."""
        ...

    def remove(self, name: str) -> None: ...

    def pending(self) -> list[str]:
        """The files that wait for a snapshot."""
        ...

    def publish(self, pending: str, name: str) -> bool:
        """Rename a pending file, durably. Whether it has its name now; it may have had it already. OSError."""
        ...

    def names(self) -> list[str]:
        """All files, except those in folders that begin with a dot."""
        ...

    def open(self, name: str) -> Any: ...

    def size(self, name: str) -> int: ...


def open_store(
    path: str, token: str, filesystem: Any = None, storage_options: Mapping[str, Any] | None = None
) -> FileStore:
    """The store of a path; nothing is written. SinkError if a driver is missing."""
    if filesystem is None and ("://" not in path or path.startswith(("file://", "local://"))):
        return LocalFileStore(path.partition("://")[2] or path, token)
    try:
        core = import_module("fsspec.core")
    except ImportError as error:
        raise SinkError(
            f'{path} needs fsspec: pip install "aiostorm[fsspec]", and its driver (s3fs, gcsfs, adlfs, …)'
        ) from error
    if filesystem is not None:
        return FsspecFileStore(_as_fsspec(filesystem), path.partition("://")[2] or path, token)
    try:
        found, root = core.url_to_fs(path, **(storage_options or {}))
    except (ImportError, ValueError) as error:
        raise SinkError(f"{path} cannot be opened: {error}") from error
    return FsspecFileStore(found, root, token)


class LocalFileStore:
    """Files below a folder of this machine."""

    def __init__(self, root: str, token: str) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))
        self._temporary = os.path.join(self.root, TEMPORARY_FOLDER)
        self._token = token
        self._number = 0

    def put(self, name: str, data: Any) -> str:
        path = self._path(name)
        folder = os.path.dirname(path)
        if not os.path.exists(path):
            make_folders(folder)
            self._write(path, data)
        sync_folder(folder)
        return path

    def replace(self, name: str, data: bytes) -> None:
        path = self._path(name)
        make_folders(os.path.dirname(path))
        self._write(path, data)
        sync_folder(os.path.dirname(path))

    def read(self, name: str, most: int) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return _bounded(file.read(most + 1), most, name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))
            sync_folder(os.path.dirname(self._path(name)))

    def names(self) -> list[str]:
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = os.path.relpath(folder, self.root).replace(os.sep, "/")
            found += files if below == "." else [f"{below}/{name}" for name in files]
        return found

    def pending(self) -> list[str]:
        try:
            return [f"{PENDING_FOLDER}/{name}" for name in os.listdir(self._path(PENDING_FOLDER))]
        except FileNotFoundError:
            return []

    def publish(self, pending: str, name: str) -> bool:
        path = self._path(name)
        make_folders(os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path(pending), path)
        sync_folder(os.path.dirname(path))
        return os.path.exists(path)

    def open(self, name: str) -> Any:
        return open(self._path(name), "rb")

    def size(self, name: str) -> int:
        return os.stat(self._path(name)).st_size

    def _path(self, name: str) -> str:
        return os.path.join(self.root, *name.split("/"))

    def sweep(self) -> int:
        self._number += 1
        probe = os.path.join(self._temporary, temporary_name(self._token, self._number))
        make_folders(self._temporary)
        with open(probe, "wb"):
            now_s = os.stat(probe).st_mtime
        os.unlink(probe)
        swept = 0
        for entry in os.listdir(self._temporary):
            path = os.path.join(self._temporary, entry)
            with contextlib.suppress(FileNotFoundError):  # another task may sweep too
                if is_stale(entry, now_s - os.stat(path).st_mtime):
                    os.unlink(path)
                    swept += 1
        return swept

    def _write(self, path: str, data: Any) -> None:
        self._number += 1
        temporary = os.path.join(self._temporary, temporary_name(self._token, self._number))
        make_folders(self._temporary)
        with NewFile(temporary, mode=0o666) as new:  # other users may read it, if the umask allows
            new.write(data)
            new.sync()
            new.replace(path)


class FsspecFileStore:
    """Files on a file system of fsspec."""

    def __init__(self, filesystem: Any, root: str, token: str) -> None:
        self.root = root.rstrip("/")
        self._fs = filesystem
        self._token = token
        self._number = 0
        protocol = filesystem.protocol
        self._atomic = not _ATOMIC.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)
        self._temporary = f"{self.root}/{TEMPORARY_FOLDER}"

    def put(self, name: str, data: Any) -> str:
        path = f"{self.root}/{name}"
        if self._fs.exists(path):
            return path
        folder = path.rpartition("/")[0]
        self._fs.makedirs(folder, exist_ok=True)
        if self._atomic:
            self._fs.pipe_file(path, bytes(data))
            return path
        temporary = self._new()
        try:
            self._fs.pipe_file(temporary, bytes(data))
            self._fs.mv(temporary, path)
        except BaseException:
            if self._fs.exists(path):  # another writer has moved the same file there
                return path
            with contextlib.suppress(OSError):
                self._fs.rm_file(temporary)
            raise
        return path

    def replace(self, name: str, data: bytes) -> None:
        path = f"{self.root}/{name}"
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        if self._atomic:
            self._fs.pipe_file(path, data)
            return
        temporary = self._new()
        self._fs.pipe_file(temporary, data)
        self.remove(name)  # not all file systems rename onto an existing file
        self._fs.mv(temporary, path)

    def read(self, name: str, most: int) -> bytes | None:
        try:
            with self.open(name) as file:
                return _bounded(file.read(most + 1), most, name)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self.root}/{name}")

    def names(self) -> list[str]:
        base = str(self._fs._strip_protocol(self.root)).rstrip("/") + "/"
        found = [str(path).removeprefix(base) for path in self._fs.find(self.root)]
        return [name for name in found if not any(part.startswith(".") for part in name.split("/")[:-1])]

    def pending(self) -> list[str]:
        folder = f"{self.root}/{PENDING_FOLDER}"
        if not self._fs.exists(folder):
            return []
        return [f"{PENDING_FOLDER}/{path.rpartition('/')[2]}" for path in self._fs.ls(folder, detail=False)]

    def publish(self, pending: str, name: str) -> bool:
        there, path = f"{self.root}/{pending}", f"{self.root}/{name}"
        if not self._fs.exists(there):
            return bool(self._fs.exists(path))
        if self._fs.exists(path) and self._fs.size(path) == self._fs.size(there):
            self.remove(pending)  # it was copied, or another run has written the same
            return True
        self.remove(name)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.mv(there, path)
        return True

    def open(self, name: str) -> Any:
        return self._fs.open(f"{self.root}/{name}", "rb")

    def size(self, name: str) -> int:
        return int(self._fs.size(f"{self.root}/{name}"))

    def sweep(self) -> int:
        if self._atomic:
            return 0
        probe = self._new()
        self._fs.pipe_file(probe, b"")
        try:
            now = self._fs.modified(probe)
        except NotImplementedError:  # the file system has no times: ages are not known
            return 0
        finally:
            self._fs.rm_file(probe)
        swept = 0
        for path in self._fs.ls(self._temporary, detail=False):
            with contextlib.suppress(FileNotFoundError):
                if is_stale(path.rpartition("/")[2], (now - self._fs.modified(path)).total_seconds()):
                    self._fs.rm_file(path)
                    swept += 1
        return swept

    def _new(self) -> str:
        self._number += 1
        self._fs.makedirs(self._temporary, exist_ok=True)
        return f"{self._temporary}/{temporary_name(self._token, self._number)}"


_NEVER = frozenset({errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EFBIG})
"""Errors about the contents: a retry would not help."""


@contextlib.contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Raise errors of the file system and its drivers as SinkErrors, with advice."""
    try:
        yield
    except SinkError:
        raise
    except Exception as error:  # drivers have errors of their own
        failure = SinkError(_advice(path, error))
        failure.temporary = getattr(error, "errno", None) not in _NEVER
        raise failure from error


def _advice(path: str, error: Exception) -> str:
    number = getattr(error, "errno", None)
    advice = {
        errno.ENOSPC: "the disk is full: free some space",
        errno.EDQUOT: "the quota is used up: free some space",
        errno.EACCES: "this user may not write there: change the path, or its rights",
        errno.EPERM: "this user may not write there: change the path, or its rights",
        errno.EROFS: "this file system is read-only: change the path",
        errno.EEXIST: "a part of the path is a file: change the path",
        errno.ENOTDIR: "a part of the path is a file: change the path",
        errno.ENAMETOOLONG: "the path is too long: shorten it, or partition by something shorter",
    }.get(number if isinstance(number, int) else 0, "is the path right, and can it be reached from here?")
    return f"cannot write to {path}: {type(error).__name__}: {error}; {advice}"


def _bounded(data: bytes, most: int, name: str) -> bytes:
    if len(data) > most:
        raise SinkError(f"{name} is larger than {most:,} bytes: it was not written by aiostorm")
    return data


def _as_fsspec(filesystem: Any) -> Any:
    if hasattr(filesystem, "pipe_file"):
        return filesystem
    return import_module("fsspec.implementations.arrow").ArrowFSWrapper(filesystem)
