"""Endpoints: where the tasks of a spout or bolt that serves Spark are found, and the token that opens them.

    ENDPOINTS/                       a folder, 0700: made by the component, named in Spark's option `endpoints`
        credentials                  a token of its own, 0600, if none was given; it stays
        clicks-0.json, clicks-1.json the address of each task, written when it listens, removed when it ends

1. Files are written beside and renamed: who reads sees a whole one or none.
2. Who dials looks here each time anew: a task that was started again elsewhere is found.
3. Executors on other machines need the folder shared, or options `address` and `credentials` instead.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...runtime import SystemRng
from ...transport import Credentials, CredentialsError, Security, new_token, parse_address
from ..errors import SparkSourceError

TOKEN: Final = "credentials"  # noqa: S105 - a file's name
_ENTRY: Final = ".json"
_NEW: Final = ".new"
_MAX_ENTRY_BYTES: Final = 4096
_MAX_TASKS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One task."""

    component: str
    task: int
    tasks: int
    address: str


def server_security(endpoints: str | None, credentials: str | None) -> Security:
    """Of who listens: what was given, else the folder's token, which is made. SparkSourceError says what is missing."""
    if credentials is not None:
        return given_security(credentials)
    if endpoints is None:
        raise SparkSourceError(
            "who may write or read here? Give endpoints=FOLDER (a token is made in it), or credentials=FILE"
        )
    make_folder(endpoints, secret=True)
    path = os.path.join(endpoints, TOKEN)
    if not os.path.exists(path):
        _put(path, Credentials("spark", new_token()).to_bytes(), replace=False)
    return Security(Credentials.from_file(path))


def given_security(credentials: str) -> Security:
    """A folder that `aiostorm certs node` has made (token and TLS), or a file with a token."""
    if os.path.isdir(credentials):
        return Security.from_directory(credentials)
    return Security(Credentials.from_file(credentials))


def client_security(endpoints: str | None, credentials: str | None) -> Security:
    """Of who dials, in an executor: what was given, else the environment's token, else the folder's."""
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
    """Have the folder, ours and closed to others."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
    except OSError as error:
        raise SparkSourceError(f"endpoints={path} cannot be used: {error.strerror or error}") from error
    if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & (0o077 if secret else 0o022)):
        raise SparkSourceError(f"others may reach into endpoints={path}: it must be yours, and chmod 700 {path}")


def announce(path: str, endpoint: Endpoint) -> str:
    """Write down where a task listens. The file's name, to be removed."""
    make_folder(path, secret=False)
    entry = {"address": endpoint.address, "task": endpoint.task, "tasks": endpoint.tasks, "pid": os.getpid()}
    entry_path = os.path.join(path, f"{endpoint.component}-{endpoint.task}{_ENTRY}")
    _put(entry_path, json.dumps(entry | {"component": endpoint.component}).encode(), replace=True)
    return entry_path


def withdraw(path: str) -> None:
    """It listens no more; unless another life of the task has written there."""
    with contextlib.suppress(OSError, ValueError, SparkSourceError):
        if _entry(path).get("pid") == os.getpid():
            os.unlink(path)


def find(path: str, component: str | None = None) -> list[Endpoint]:
    """The tasks in a folder, in order. SparkSourceError if they are of several components and none was named."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(_ENTRY))
    except OSError as error:
        raise SparkSourceError(f"endpoints={path} cannot be read: {error.strerror or error}") from error
    found = []
    for name in names[:_MAX_TASKS]:
        with contextlib.suppress(FileNotFoundError):  # it ends as we look
            entry = _entry(os.path.join(path, name))
            found.append(Endpoint(entry["component"], entry["task"], entry["tasks"], entry["address"]))
    components = sorted({one.component for one in found})
    if component is None and len(components) > 1:
        raise SparkSourceError(f"endpoints={path} is of {', '.join(components)}: say which, option component")
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
    """A file of that content, 0600, whole or not at all. With `replace` false one that is there stays."""
    new = f"{path}.{SystemRng().token_bytes(8).hex()}{_NEW}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        if replace:
            os.replace(new, path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
