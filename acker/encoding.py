"""Encoding: the messages between ackers and tasks of other workers, encoded.

    INIT      [task, 1, owner, (root, xor) …]
    ACKS      [task, 2, (root, xor) …, failures, resets, (root, index, sub-tree's root, its edge) …]
    FORGET    [task, 7, owner]
    VERDICTS  [task, 3, [kind, root, index, what, left] …]

    a failure: [root, index, what]     what: [reason, component, task, error]     left: indices, 8 bytes each
    what of a verdict: of an ACK [index, what] for each failed message, or none; of EXPIRED and RESET none

1. Ids are sent as 8 bytes each, little-endian: in msgpack, a 64-bit number takes 9 bytes, and more time.
2. Received messages are checked before they reach a ledger: ProtocolError. An XOR may be any 64-bit number; a root is
   not 0.
3. A message of any size can be sent: one that may be larger than a payload is split (`_split`), and the texts of many
   failures are shortened. All items about one root stay in one part, in their order: the rule of ack_batch.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Final, TypeVar

from ..topology import Failure
from ..transport.codec import (
    MessageCodec,
    ProtocolError,
    Received,
    pack_numbers,
    pack_pairs,
    pack_plain,
    pack_value,
    unpack_numbers,
    unpack_pairs,
)
from .actor import Acks, Forget, Init, Verdicts
from .ledger import Failures, Verdict, VerdictKind

_INIT: Final = 1
_ACKS: Final = 2
_VERDICTS: Final = 3
_FORGET: Final = 7  # 4 to 6 belong to backpressure

_KINDS: Final = (VerdictKind.ACK, VerdictKind.FAIL, VerdictKind.EXPIRED, VerdictKind.RESET)
_NUMBER_OF: Final = {kind: number for number, kind in enumerate(_KINDS)}
_WHAT: Final = itemgetter(3)
"""Of an encoded verdict: the failures."""

T = TypeVar("T")
_Encoded = tuple[str, str | None, int | None, str | None]
"""A failure: reason, component, task, error."""

MAX_PAIRS: Final = 16_384
"""Roots in one message: about 0.3 MB."""

FEW_FAILURES: Final = 64
"""Up to this many failures keep their texts of up to 2000 characters (tasks.describe): 0.5 MB."""

MAX_FAILURES: Final = 256
"""In one part, unless all are of one root: TEXT_BYTES for their texts, at least MIN_TEXT characters for each."""

TEXT_BYTES: Final = 512 * 1024
MIN_TEXT: Final = 40
FAILURE_WEIGHT: Final = MAX_PAIRS // MAX_FAILURES


def _pack(task_id: int, message: object) -> bytes:
    # Only the texts of failures need the checks of pack_value: all else are numbers and bytes that are made here.
    if type(message) is Acks:
        failures = tuple((root, index, _failure(what)) for root, index, what in message.failures or ())
        detached = pack_numbers(chain.from_iterable(message.detached)) if message.detached else b""
        fields = (task_id, _ACKS, pack_pairs(message.items), failures, tuple(message.resets or ()), detached)
        return pack_value(fields) if failures else pack_plain(fields)
    if type(message) is Init:
        return pack_plain((task_id, _INIT, message.owner, pack_pairs(message.items)))
    if type(message) is Verdicts:
        verdicts = tuple(map(_verdict, message.verdicts))
        return (pack_value if any(map(_WHAT, verdicts)) else pack_plain)((task_id, _VERDICTS, verdicts))
    if type(message) is Forget:
        return pack_plain((task_id, _FORGET, message.owner))
    raise TypeError(f"{message!r} cannot be sent to another worker")


def _unpack(item: Received) -> tuple[int, object]:
    match item:
        case (bool(), *_) | (_, _, bool(), *_):  # no number, though an int for Python
            raise ProtocolError(f"not a message of an acker: {item!r:.100}")
        case (int(task_id), 2, bytes(pairs), failures, resets, bytes(detached)) if _are_tuples(failures, resets):
            named = [_failed(found) for found in failures]
            return task_id, Acks(_unpairs(pairs), named, [_root(r) for r in resets], _undetached(detached))
        case (int(task_id), 1, int(owner), bytes(pairs)):
            return task_id, Init(owner, _unpairs(pairs))
        case (int(task_id), 3, verdicts) if _are_tuples(verdicts):
            return task_id, Verdicts([_unverdict(found) for found in verdicts])
        case (int(task_id), 7, int(owner)):
            return task_id, Forget(owner)
        case _:
            raise ProtocolError(f"not a message of an acker: {item!r:.100}")


def _split(message: object) -> Sequence[object]:
    """The same in parts that each fit into a payload. Nearly always it is one part."""
    if type(message) is Acks:
        failures, resets, detached = message.failures or (), message.resets or (), message.detached or ()
        pairs = len(message.items) + 2 * len(detached)
        if pairs <= MAX_PAIRS and len(failures) <= FEW_FAILURES and len(resets) <= MAX_PAIRS:
            return (message,)
        parts: list[Acks] = list(_split_acks(message.items, failures, detached))
        return [*parts, *(Acks([], [], list(part)) for part in _chunks(resets))]
    if type(message) is Init and len(message.items) > MAX_PAIRS:
        return [Init(message.owner, list(part)) for part in _chunks(message.items)]
    if type(message) is Verdicts and sum(map(_weight, message.verdicts)) > FEW_FAILURES * FAILURE_WEIGHT:
        return list(_split_verdicts(message.verdicts))
    return (message,)


def _split_acks(
    items: Sequence[tuple[int, int]],
    failures: Sequence[tuple[int, int, Failure]],
    detached: Sequence[tuple[int, int, int, int]],
) -> Iterator[Acks]:
    # A ledger takes the first failure of a message, and the others would make the part of this root too large.
    failed: dict[int, dict[int, tuple[int, int, Failure]]] = {}
    for failure in failures:
        failed.setdefault(failure[0], {}).setdefault(failure[1], failure)
    parted: dict[int, list[tuple[int, int, int, int]]] = {}
    for row in detached:
        parted.setdefault(row[0], []).append(row)
    xors = dict(items)
    xor_pairs: list[tuple[int, int]] = []
    named: list[tuple[int, int, Failure]] = []
    left: list[tuple[int, int, int, int]] = []
    for root in dict.fromkeys([*failed, *parted, *xors]):
        mine, away = list(failed.get(root, {}).values()), parted.get(root, [])
        many = named and len(named) + len(mine) > MAX_FAILURES
        if many or ((xor_pairs or left) and len(xor_pairs) + 2 * (len(left) + len(away)) >= MAX_PAIRS):
            yield Acks(xor_pairs, named, None, left)
            xor_pairs, named, left = [], [], []
        if root in xors:
            xor_pairs.append((root, xors[root]))
        named += [(root, index, _cut(what, len(mine))) for _, index, what in mine]
        left += away
    if xor_pairs or named or left:
        yield Acks(xor_pairs, named, None, left)


def _split_verdicts(verdicts: Sequence[Verdict]) -> Iterator[Verdicts]:
    part: list[Verdict] = []
    weight = 0
    for verdict in verdicts:
        kind, root, what = verdict.kind, verdict.root, verdict.failure
        mine = _weight(verdict)
        if part and weight + mine > MAX_PAIRS:
            yield Verdicts(part)
            part, weight = [], 0
        if isinstance(what, dict):
            cut = {i: _cut(failure, len(what)) for i, failure in what.items()}
            verdict = Verdict(kind, root, failure=cut, left=verdict.left)
        elif what is not None:
            verdict = Verdict(kind, root, verdict.index, _cut(what, 1))
        part.append(verdict)
        weight += mine
    yield Verdicts(part)


def _weight(verdict: Verdict) -> int:
    """In pairs."""
    what = verdict.failure
    failures = 0 if not what else FAILURE_WEIGHT * (len(what) if isinstance(what, dict) else 1)
    return (failures or 1) + len(verdict.left) // 4


def _cut(failure: Failure, count: int) -> Failure:
    """Shorten the text so that `count` (or at least MAX_FAILURES) texts of this length fit."""
    most = max(MIN_TEXT, TEXT_BYTES // (4 * max(count, MAX_FAILURES)))  # UTF-8: up to 4 bytes a character
    if failure.error is None or len(failure.error) <= most:
        return failure
    return replace(failure, error=f"{failure.error[: most - 2]} …")


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), MAX_PAIRS):
        yield items[start : start + MAX_PAIRS]


ACKER_MESSAGES: Final = MessageCodec(
    _pack, _unpack, _split, types=(Init, Acks, Verdicts, Forget), kinds=(_INIT, _ACKS, _VERDICTS, _FORGET)
)
"""Init, Acks, Verdicts and Forget."""


def _are_tuples(*values: object) -> bool:
    return all(isinstance(value, tuple) for value in values)


def _unpairs(packed: bytes) -> list[tuple[int, int]]:
    pairs = unpack_pairs(packed)
    if not all(root for root, _ in pairs):
        raise ProtocolError("a root must not be 0")
    return pairs


def _undetached(packed: bytes) -> list[tuple[int, int, int, int]]:
    numbers = unpack_numbers(packed)
    if len(numbers) % 4:
        raise ProtocolError("a detached row must have four numbers")
    rows = list(zip(numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True))
    for root, index, sub, edge in rows:
        if not (root and sub and edge) or root == sub or index >= 2**31:
            raise ProtocolError(f"not a detached row: {(root, index, sub, edge)}")
    return rows


def _root(root: object) -> int:
    if type(root) is not int or not 0 < root < 2**64:
        raise ProtocolError(f"not a root: {root!r:.50}")
    return root


def _index(index: object) -> int:
    if type(index) is not int or not -1 <= index < 2**31:
        raise ProtocolError(f"not an index of a message: {index!r:.50}")
    return index


def _failure(failure: Failure) -> _Encoded:
    return failure.reason, failure.component, failure.task, failure.error


def _unfailure(what: Received) -> Failure:
    match what:
        case (
            "failed" | "timeout" as reason,
            str() | None as component,
            int() | None as task,
            str() | None as error,
        ) if type(task) is not bool:
            return Failure(reason, component, task, error)
        case _:
            raise ProtocolError(f"not a failure: {what!r:.100}")


def _failed(found: Received) -> tuple[int, int, Failure]:
    match found:
        case (root, index, what):
            return _root(root), _index(index), _unfailure(what)
        case _:
            raise ProtocolError(f"not a failed message: {found!r:.100}")


def _verdict(verdict: Verdict) -> tuple[int, int, int, object, bytes]:
    given = verdict.failure
    what: object
    if isinstance(given, dict):
        what = tuple((index, _failure(failure)) for index, failure in given.items())
    else:
        what = None if given is None else _failure(given)
    left = pack_numbers(verdict.left) if verdict.left else b""
    return _NUMBER_OF[verdict.kind], verdict.root, verdict.index, what, left


def _unverdict(found: Received) -> Verdict:
    match found:
        case (bool(), *_):  # no number, though an int for Python
            raise ProtocolError(f"not a verdict: {found!r:.100}")
        case (0, root, -1, failures, bytes(left)) if failures is None or _are_tuples(failures):
            named = _named(failures) if failures else None
            return Verdict(VerdictKind.ACK, _root(root), failure=named, left=tuple(map(_index, unpack_numbers(left))))
        case (0, root, int(index), None, b"") if index >= 0:
            return Verdict(VerdictKind.ACK, _root(root), _index(index))
        case (1, root, index, what, b""):
            return Verdict(VerdictKind.FAIL, _root(root), _index(index), _unfailure(what))
        case (int(kind), root, index, None, b"") if kind in (2, 3):
            return Verdict(_KINDS[kind], _root(root), _index(index))
        case _:
            raise ProtocolError(f"not a verdict: {found!r:.100}")


def _named(failures: tuple[Received, ...]) -> Failures:
    named: Failures = {}
    for found in failures:
        match found:
            case (index, what):
                named[_index(index)] = _unfailure(what)
            case _:
                raise ProtocolError(f"not a failed message: {found!r:.100}")
    return named
