"""FsspecStore: a store on a file system of fsspec (s3://, gs://, abfs://, hdfs://, memory://, …).

    object stores:       write ─► one put, which is atomic and durable
    other file systems:  write ─► temporary file ─► renamed

1. All work is done in one thread of the store: the event loop never waits for the network.
2. A put of an object store is durable, so `sync` only waits for earlier calls. Of other file systems it is the driver
   that decides when data is durable; for a folder of this machine use DirectoryStore, which syncs.
3. There is no lock: the owner of a folder is found out by its content (keeper.py).
4. A blob is the file `<name>.blob`. Listings are never taken from a cache of the driver.
5. Where there is no atomic put, a write replaces a blob by removing the old one first: a crash in between loses both.
   Snapshots do not rely on it: a blob that counts is never written again.
6. `append` reads and writes the whole blob: object stores cannot append.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from importlib import import_module
from typing import Any, Final

from ..runtime import MAX_BLOB_BYTES, DirectoryStore, StoreError, StorePlaceError, ThreadedStore, check_size

_BLOB: Final = ".blob"
_TEMPORARY: Final = ".new"

_ATOMIC: Final = frozenset({"memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2"})
"""Protocols with atomic puts."""


def open_store(
    where: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    shared: bool = False,
    max_bytes: int = MAX_BLOB_BYTES,
) -> DirectoryStore | FsspecStore:
    """The store of a folder or a URL; nothing is read or written.

    StorePlaceError for a URL that fsspec does not know, or if fsspec or a driver is missing. `storage_options`:
    for the driver, as fsspec takes them. `shared`: another process owns it (see DirectoryStore). `max_bytes`: of a
    blob.
    """
    if "://" not in where or where.startswith(("file://", "local://")):
        return DirectoryStore(where.partition("://")[2] or where, max_bytes=max_bytes, shared=shared)
    try:
        core = import_module("fsspec.core")
    except ImportError as error:
        raise StorePlaceError(
            f'{where} cannot be opened: fsspec is not installed: pip install "aiostorm[fsspec]"'
        ) from error
    try:
        filesystem, root = core.url_to_fs(where, **(storage_options or {}))
    except ImportError as error:
        raise StorePlaceError(
            f'{where} cannot be opened: {error}. It needs pip install "aiostorm[fsspec]", and the driver of that file '
            "system (s3fs, gcsfs, adlfs, …)"
        ) from error
    except ValueError as error:
        raise StorePlaceError(
            f"{where} cannot be opened: {error}. Use a folder, or a URL that fsspec knows: s3://, gs://, abfs://, "
            "hdfs://, …"
        ) from error
    return FsspecStore(filesystem, root, max_bytes=max_bytes)


class FsspecStore(ThreadedStore):
    """Blobs below `root` of a file system of fsspec (see the module)."""

    def __init__(self, filesystem: Any, root: str, *, max_bytes: int = MAX_BLOB_BYTES) -> None:
        root = root.rstrip("/")
        super().__init__(_Files(filesystem, root, max_bytes), root, max_bytes)


class _Files:
    """The operations, in the store's thread. They are BlobFiles."""

    def __init__(self, filesystem: Any, root: str, max_bytes: int) -> None:
        self._fs = filesystem
        self._root = root
        self._max_bytes = max_bytes
        protocol = filesystem.protocol
        self._atomic = not _ATOMIC.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)

    def read(self, name: str) -> bytes | None:
        with self._working(f"read {name}"):
            try:
                with self._fs.open(self._path(name), "rb") as file:
                    data: bytes = file.read(self._max_bytes + 1)
            except FileNotFoundError:
                return None
        check_size(self._root, name, len(data), self._max_bytes)
        return data

    def write(self, name: str, data: bytes) -> None:
        check_size(self._root, name, len(data), self._max_bytes)
        path = self._path(name)
        with self._working(f"write {name}"):
            self._fs.makedirs(self._root, exist_ok=True)
            if self._atomic:
                self._fs.pipe_file(path, data)
                return
            temporary = f"{self._root}/{name}{_TEMPORARY}"
            self._fs.pipe_file(temporary, data)
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(path)  # not all file systems rename onto an existing file
            self._fs.mv(temporary, path)

    def append(self, name: str, data: bytes) -> None:
        self.write(name, (self.read(name) or b"") + data)

    def remove(self, name: str) -> None:
        with self._working(f"remove {name}"), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def names(self, prefix: str) -> list[str]:
        with self._working("list the blobs"):
            self._fs.invalidate_cache()
            try:
                paths = self._fs.ls(self._root, detail=False)
            except FileNotFoundError:
                return []
        found = [str(path).rpartition("/")[2] for path in paths]
        names = [name.removesuffix(_BLOB) for name in found if name.endswith(_BLOB)]
        return sorted(name for name in names if name.startswith(prefix))

    def sync(self) -> None:
        """Nothing is left to do: earlier calls have come before."""

    def close(self) -> None:
        """Nothing is open between calls."""

    @contextlib.contextmanager
    def _working(self, what: str) -> Generator[None, None, None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # drivers have errors of their own
            raise StoreError(
                f"{self._root}: cannot {what}: {type(error).__name__}: {error}. Is the path right, may this user write "
                "there, and can it be reached from here?"
            ) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}{_BLOB}"
