"""Checking: the target of a submission in a process of its own, before it is submitted.

    archive ─► unpacked in a temporary folder ─► `aiostorm check-target` in an empty folder ─► one JSON document

1. Code of the user is never imported here: not in the client, nor in any daemon.
2. With an archive only its own modules and those that are installed can be imported: a target that works because of the
   current directory is found out before it is submitted.
3. A process that hangs is killed; what it prints is bounded; it dies with this one.
4. A client that is killed leaves its temporary folder behind: the next check removes it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ...runtime import ChildLine, PythonSpawner
from ..code import unpack
from ..stale_files import own_name, remove_tree, sweep
from .errors import CheckError

CHECK_S: Final = 30.0
"""How long the import of a target and the making of its topology may take."""

MAX_OUTPUT_CHARS: Final = 1_000_000
SHOWN_LINES: Final = 8
_PREFIX: Final = "aiostorm-check-"


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """A target that makes a topology. `name`: its own, or the module's. `tasks`: how many, with ackers.

    `components`: name → kind and tasks. `workers`: as its code says, if it does. `file`: of the target's module.
    `guarantee`, `state`: with the settings of its code; `state`: empty if they do not say where.
    `parallelism`: component → tasks, of what was given and of what was kept.
    """

    name: str
    tasks: int
    components: Mapping[str, Any] = field(default_factory=dict)
    spouts: tuple[str, ...] = ()
    workers: int | None = None
    file: str = ""
    guarantee: str = ""
    state: str = ""
    parallelism: dict[str, int] = field(default_factory=dict)


async def check_target(
    target: str,
    arguments: Sequence[str],
    config: Mapping[str, Any],
    archive: bytes | None,
    *,
    parallelism: Mapping[str, int] | None = None,
    kept: Mapping[str, int] | None = None,
    timeout_s: float = CHECK_S,
) -> CheckedTarget:
    """Import a target as a worker will, and check its topology with these settings. CheckError, SpawnError.

    `parallelism`: component → tasks, where it is not as declared; `kept`: the same, of components that may be missing.
    """
    await asyncio.to_thread(sweep, Path(tempfile.gettempdir()), _PREFIX, remove_tree)
    with tempfile.TemporaryDirectory(prefix=own_name(_PREFIX)) as temporary:
        given = ["check-target", "--settings-from-stdin"]
        if archive is not None:
            code, empty = Path(temporary, "code"), Path(temporary, "empty")
            await asyncio.to_thread(unpack, archive, code)
            await asyncio.to_thread(empty.mkdir)
            given += ["--path", str(code), "--folder", str(empty)]
        for option, counts in (("-e", parallelism), ("--kept", kept)):
            given += [word for name, count in (counts or {}).items() for word in (option, f"{name}={count}")]
        output = _Output()
        spawner = PythonSpawner("aiostorm", output.add)
        child = await spawner.spawn("check-target", [*given, "--", target, *arguments], stdin=_packed(config))
        try:
            async with asyncio.timeout(timeout_s):
                code_of_end = await child.wait()
        except TimeoutError as error:
            raise CheckError(
                f"{target} was not imported within {timeout_s:g} s{output.last()}: allow it more with --check-timeout "
                "(check_timeout_s), or leave the check out with --no-check (check=False)"
            ) from error
        finally:
            child.kill()
            await child.wait()
    return _read(output, target, code_of_end)


class _Output:
    """What the child has printed: the document, and the last lines for the error."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left = MAX_OUTPUT_CHARS
        self._lines: deque[str] = deque(maxlen=SHOWN_LINES)

    def add(self, line: ChildLine) -> None:
        """A line, or a piece of a long one."""
        if line.stream == "stderr":
            self._lines.append(line.text)
            return
        self._left -= len(line.text)
        if self._left >= 0:
            self._pieces.append(line.text)

    @property
    def document(self) -> str:
        """What it has printed to its standard output: one line, perhaps in pieces."""
        return "".join(self._pieces)

    def last(self) -> str:
        """Its last lines on the standard error, for an error."""
        return f" (it printed last: {' / '.join(self._lines)})" if self._lines else ""


def _packed(config: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(config)).encode()


def _read(output: _Output, target: str, code: int) -> CheckedTarget:
    try:
        found = json.loads(output.document)
        problems = [str(problem) for problem in found["problems"]]
        if not problems:
            return CheckedTarget(
                str(found["name"]),
                int(found["tasks"]),
                dict(found["components"]),
                tuple(found["spouts"]),
                found["workers"],
                str(found["file"]),
                str(found["guarantee"]),
                str(found["state"]),
                {str(name): int(count) for name, count in found["parallelism"].items()},
            )
    except (ValueError, KeyError, TypeError) as error:
        how = f"signal {-code}" if code < 0 else f"code {code}"
        raise CheckError(f"the process that imports {target} has ended with {how}{output.last()}") from error
    raise CheckError(*problems)
