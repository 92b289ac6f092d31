"""Wire: what ackers and tasks tell each other, between two workers.

    INIT      [task, 1, owner, (root, xor) …]
    ACKS      [task, 2, (root, xor) …, failures, resets]          a failure: [root, index, what]
    VERDICTS  [task, 3, [kind, root, index, what] …]              what: [reason, component, task, error] or none

1. Ids travel as bytes, 8 each, little-endian: a number of 64 bits costs 9 in msgpack, and time.
2. What comes is checked before a ledger sees it: ProtocolError. An XOR may be any number of 64 bits; a root is not 0.
"""

from __future__ import annotations

from typing import Any, Final

from ..topology import Failure
from ..transport import MessageCodec, ProtocolError, pack_pairs, pack_value, unpack_pairs
from .actor import Acks, Init, Verdicts
from .ledger import Verdict, VerdictKind

_INIT: Final = 1
_ACKS: Final = 2
_VERDICTS: Final = 3

_KINDS: Final = (VerdictKind.ACK, VerdictKind.FAIL, VerdictKind.EXPIRED, VerdictKind.RESET)
_NUMBER_OF: Final = {kind: number for number, kind in enumerate(_KINDS)}


def _pack(task_id: int, message: Any) -> bytes:
    if type(message) is Acks:
        failures = tuple((root, index, _failure(what)) for root, index, what in message.failures or ())
        return pack_value((task_id, _ACKS, pack_pairs(message.items), failures, tuple(message.resets or ())))
    if type(message) is Init:
        return pack_value((task_id, _INIT, message.owner, pack_pairs(message.items)))
    if type(message) is Verdicts:
        return pack_value((task_id, _VERDICTS, tuple(map(_verdict, message.verdicts))))
    raise TypeError(f"{message!r} does not travel to another worker")


def _unpack(item: Any) -> tuple[int, Any]:
    match item:
        case (int(task_id), 2, bytes(pairs), tuple(failures), tuple(resets)):
            return task_id, Acks(_unpairs(pairs), [_failed(found) for found in failures], [_root(r) for r in resets])
        case (int(task_id), 1, int(owner), bytes(pairs)):
            return task_id, Init(owner, _unpairs(pairs))
        case (int(task_id), 3, tuple(verdicts)):
            return task_id, Verdicts([_unverdict(found) for found in verdicts])
    raise ProtocolError(f"no message of an acker's: {item!r:.100}")


ACKER_MESSAGES: Final = MessageCodec(_pack, _unpack)
"""Init, Acks and Verdicts."""


def _unpairs(packed: bytes) -> list[tuple[int, int]]:
    pairs = unpack_pairs(packed)
    if not all(root for root, _ in pairs):
        raise ProtocolError("a root is not 0")
    return pairs


def _root(root: Any) -> int:
    if type(root) is not int or not 0 < root < 2**64:
        raise ProtocolError(f"no root: {root!r:.50}")
    return root


def _index(index: Any) -> int:
    if type(index) is not int or not -1 <= index < 2**31:
        raise ProtocolError(f"no index of a message: {index!r:.50}")
    return index


def _failure(failure: Any) -> Any:
    if failure is None:
        return None
    return failure.reason, failure.component, failure.task, failure.error


def _unfailure(what: Any) -> Failure | None:
    match what:
        case None:
            return None
        case (("failed" | "timeout") as reason, str() | None as component, int() | None as task, str() | None as error):
            return Failure(reason, component, task, error)
    raise ProtocolError(f"no failure: {what!r:.100}")


def _failed(found: Any) -> tuple[int, int, Any]:
    match found:
        case (root, index, what):
            return _root(root), _index(index), _unfailure(what)
    raise ProtocolError(f"no failed message: {found!r:.100}")


def _verdict(verdict: Verdict) -> Any:
    what = verdict.failure
    if verdict.kind is VerdictKind.ACK and what:
        what = tuple((index, _failure(failure)) for index, failure in what.items())
    else:
        what = _failure(what)
    return _NUMBER_OF[verdict.kind], verdict.root, verdict.index, what


def _unverdict(found: Any) -> Verdict:
    match found:
        case (0, root, -1, None | tuple() as failures):
            return Verdict(VerdictKind.ACK, _root(root), failure=_named(failures) if failures else None)
        case (1 | 2 | 3 as kind, root, index, what):
            return Verdict(_KINDS[kind], _root(root), _index(index), _unfailure(what))
    raise ProtocolError(f"no verdict: {found!r:.100}")


def _named(failures: tuple[Any, ...]) -> dict[int, Any]:
    named: dict[int, Any] = {}
    for found in failures:
        match found:
            case (index, what):
                named[_index(index)] = _unfailure(what)
            case _:
                raise ProtocolError(f"no failed message: {found!r:.100}")
    return named
