"""Endpoints: the addresses of the tasks of a spout or bolt that serves Spark, and their token.

    ENDPOINTS/                       a folder, 0700: made by the component, named in Spark's option `endpoints`
        credentials                  a token of its own, 0600, if none was given; it stays
        clicks-0.json, clicks-1.json the address of each task, written when it listens, removed when it ends

1. Files are written under another name and renamed: a reader finds a complete file or none.
2. A client reads the folder for each connection: it finds a task that was restarted elsewhere.
3. Executors on other machines need a shared folder, or the options `address` and `credentials`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...runtime import NewFile, SystemRng
from ...transport import Credentials, CredentialsError, Security, new_token, parse_address
from ..errors import SparkSourceError

TOKEN: Final = "credentials"  # noqa: S105 - a file's name
_ENTRY: Final = ".json"
_NEW: Final = ".new"
_MAX_ENTRY_BYTES: Final = 4096
_MAX_TASKS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of one task."""

    component: str
    task: int
    tasks: int
    address: str


def server_security(endpoints: str | None, credentials: str | None) -> Security:
    """The server's security: what was given, else the folder's token, which is made. SparkSourceError if neither."""
    if credentials is not None:
        return given_security(credentials)
    if endpoints is None:
        raise SparkSourceError(
            "clients need a token: give endpoints=FOLDER (a token is made in it), or credentials=FILE"
        )
    make_folder(endpoints, secret=True)
    path = os.path.join(endpoints, TOKEN)
    if not os.path.exists(path):
        _put(path, Credentials("spark", new_token()).to_bytes(), replace=False)
    return Security(Credentials.from_file(path))


def given_security(credentials: str) -> Security:
    """The security in a folder of `aiostorm certs node` (token and TLS), or in a file with a token."""
    if os.path.isdir(credentials):
        return Security.from_directory(credentials)
    return Security(Credentials.from_file(credentials))


def client_security(endpoints: str | None, credentials: str | None) -> Security:
    """The client's security, in an executor: what was given, else the environment's token, else the folder's."""
    if credentials is not None:
        return given_security(credentials)
    found = Credentials.from_environment()
    if found is not None:
        return Security(found)
    if endpoints is not None:
        return Security(Credentials.from_file(os.path.join(endpoints, TOKEN)))
    raise CredentialsError(
        "no token: give option credentials (a file 0600 on each executor, or a folder of `aiostorm certs node`), "
        "endpoints, or set AIOSTORM_CREDENTIALS for the executors"
    )


def make_folder(path: str, *, secret: bool) -> None:
    """Make the folder, or check that it belongs to this user and is closed to others."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
    except OSError as error:
        raise SparkSourceError(f"endpoints={path} cannot be used: {error.strerror or error}") from error
    if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & (0o077 if secret else 0o022)):
        raise SparkSourceError(f"others may reach into endpoints={path}: it must be yours, and chmod 700 {path}")


def announce(path: str, endpoint: Endpoint) -> str:
    """Write the address of a task. Returns the path of the file, to be removed later."""
    make_folder(path, secret=False)
    entry = {"address": endpoint.address, "task": endpoint.task, "tasks": endpoint.tasks, "pid": os.getpid()}
    entry_path = os.path.join(path, f"{endpoint.component}-{endpoint.task}{_ENTRY}")
    _put(entry_path, json.dumps(entry | {"component": endpoint.component}).encode(), replace=True)
    return entry_path


def withdraw(path: str) -> None:
    """Remove the address of a task, unless another process of the task has written it."""
    with contextlib.suppress(OSError, ValueError, SparkSourceError):
        if _entry(path).get("pid") == os.getpid():
            os.unlink(path)


def find(path: str, component: str | None = None) -> list[Endpoint]:
    """The tasks in a folder, in order. SparkSourceError if there are several components and none was named."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(_ENTRY))
    except OSError as error:
        raise SparkSourceError(f"endpoints={path} cannot be read: {error.strerror or error}") from error
    found = []
    for name in names[:_MAX_TASKS]:
        with contextlib.suppress(FileNotFoundError):  # the task ends at this moment
            entry = _entry(os.path.join(path, name))
            found.append(Endpoint(entry["component"], entry["task"], entry["tasks"], entry["address"]))
    components = sorted({one.component for one in found})
    if component is None and len(components) > 1:
        raise SparkSourceError(f"endpoints={path} has {', '.join(components)}: choose one by option component")
    wanted = component or (components[0] if components else "")
    return sorted((one for one in found if one.component == wanted), key=lambda one: one.task)


def _entry(path: str) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        data = file.read(_MAX_ENTRY_BYTES + 1)
    try:
        entry = json.loads(data)
        kinds = {"component": str, "task": int, "tasks": int, "address": str}
        if not all(type(entry[name]) is kind for name, kind in kinds.items()):
            raise ValueError("other fields than it should have")
        parse_address(entry["address"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise SparkSourceError(f"{path} is no address of a task: {error}") from error
    found: Mapping[str, Any] = entry
    return found


def _put(path: str, data: bytes, *, replace: bool) -> None:
    """Write a file (0600) atomically. With `replace` false an existing file stays."""
    with NewFile(f"{path}.{SystemRng().token_bytes(8).hex()}{_NEW}") as new:
        new.write(data)
        if replace:
            new.replace(path)
        else:
            new.link(path)
