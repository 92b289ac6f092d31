"""Values: Python values as bytes, and back: msgpack with a closed table of further types.

    pack_value ─▶ walk: exact types only; containers that msgpack does not have become extensions ─▶ msgpack
    unpack_value ─▶ scan: sound, not too deep, not too many values ─▶ msgpack ─▶ extensions, records

1. A value arrives equal and with the same type, or UnsendableError names the type and its place. Types are exact: a
   subclass of a type of the table is not in the table, unless it is a registered record.
2. Received bytes are a value or an UnreadableError. Decoding imports nothing, looks no received name up and calls
   nothing, except registered records. It allocates no more than the bytes contain (scan.py).
3. msgpack's arrays are Python tuples; its maps are dicts whose keys are str. Lists and other dicts are extensions
   (extensions.py has the table).
4. The sizes of texts, bytes, arrays and containers are checked before they are copied: a gigabyte would block the event
   loop until the worker counts as frozen, again and again.
5. A container of plain values takes one call of msgpack; only other containers are walked in Python.

Storm uses Kryo with registered classes, and otherwise Java's serialization. Here there is no such fallback.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Mapping, Sequence, Set
from importlib import import_module
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Final, Protocol

import msgpack

from ..errors import UnreadableError, UnsendableError
from ..net.network import MAX_FRAME_BYTES
from . import extensions as ext
from .records import advice, decode_enum, encode_enum, make_record, record_of
from .scan import CHECKED_BYTES, MAX_DEPTH, MAX_ITEMS, scan
from .sizes import allow, allow_for, check_length, check_size, check_sizes

if TYPE_CHECKING:
    from .names import Received, Value, Walked

PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes})
"""The types that msgpack encodes itself."""

_CERTAIN: Final = PLAIN - {int, str}
"""Those that never fail: an int may be too large, a str may have surrogates."""

_KEPT_BYTES: Final = 4 * 1024 * 1024

WRONG: Final = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, MemoryError, struct.error)
"""The errors of decoding wrong bytes."""


def pack_value(value: object, max_items: int = MAX_ITEMS, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Encode a value. UnsendableError if its type is not sendable, or it has too many values or bytes."""
    before = allow_for(max_items, max_bytes)
    try:
        check_size(value)
        try:
            packed = _pack(_walk(value, 0, PLAIN))
        except (OverflowError, UnicodeEncodeError):  # rare: a large int or a surrogate
            packed = _pack(_walk(value, 0, _CERTAIN))
    except RecursionError:
        raise UnsendableError(f"it is nested more than {MAX_DEPTH} deep") from None
    finally:
        allow(before)
    check_items(packed, MAX_DEPTH, max_items)
    return packed


def unpack_value(data: bytes | memoryview, max_items: int = MAX_ITEMS) -> Received:
    """Decode a value. UnreadableError for bytes that pack_value does not make."""
    scan(data, MAX_DEPTH, max_items)
    return decode(data)


class RefTable(Protocol):
    """Encodes refs of actors: the node that sends or receives them."""

    def encode_ref(self, value: object) -> bytes | None:
        """Encode a ref; None: the value is no ref."""
        ...

    def decode_ref(self, data: bytes) -> object:
        """Decode a ref, which works in this process. ValueError or UnreadableError."""
        ...


_refs: RefTable | None = None  # set while a message is packed or unpacked, which never waits


def pack_message(message: object, refs: RefTable) -> bytes:
    """As pack_value, for messages with refs of actors."""
    global _refs
    before, _refs = _refs, refs
    try:
        return pack_value(message)
    finally:
        _refs = before


def unpack_message(data: bytes | memoryview, refs: RefTable) -> Received:
    """As unpack_value, for results of pack_message."""
    global _refs
    before, _refs = _refs, refs
    try:
        return unpack_value(data)
    finally:
        _refs = before


def pack_column(values: Sequence[object]) -> bytes:
    """Encode a column of values, each with the full depth. UnsendableError with the `offset` of the first bad one."""
    check_sizes(values)
    try:
        return _pack(_walk_column(values, PLAIN))
    except (OverflowError, UnicodeEncodeError):
        return _pack(_walk_column(values, _CERTAIN))


def unpack_column(data: bytes | memoryview, max_items: int = MAX_ITEMS) -> tuple[tuple[Received, ...], int]:
    """Decode a column; also returns the number of values that scan counted."""
    items = scan(data, MAX_DEPTH + 1, max_items)
    values = decode(data)
    if type(values) is not tuple:
        raise UnreadableError(f"a column that is a {type(values).__qualname__}")
    return values, items


def pack_plain_column(values: Sequence[object], kinds: Set[type] | None = None) -> bytes | None:
    """Encode a column in one call of msgpack if all values, of these `kinds`, are plain; else None. UnsendableError."""
    kinds = set(map(type, values)) if kinds is None else kinds
    if kinds <= PLAIN:
        check_sizes(values, kinds)
        try:
            return pack_plain(values)
        except (OverflowError, UnicodeEncodeError):  # an int beyond 64 bits, a str with surrogates
            return None
    return None


def unpack_plain_column(data: bytes, count: int) -> list[Received]:
    """Decode a column of `count` plain values.

    Without a scan: arrays in it are limited to `count` items, and any array makes the column invalid.
    """
    try:
        values = msgpack.unpackb(data, ext_hook=_no_extension, max_array_len=count, max_map_len=0)
    except WRONG as error:
        raise UnreadableError(f"a column of {len(data)} bytes cannot be read: {error!r:.200}") from error
    if type(values) is not list or len(values) != count or not PLAIN.issuperset(map(type, values)):
        raise UnreadableError(f"a column that is not {count} plain values")
    return values


def decode(data: bytes | memoryview) -> Received:
    """Decode bytes that scan has accepted."""
    try:
        return msgpack.unpackb(data, use_list=False, ext_hook=_from_extension, object_pairs_hook=_from_map)
    except UnreadableError:
        raise
    except WRONG as error:
        raise UnreadableError(f"a value of {len(data)} bytes cannot be read: {error!r:.200}") from error


def check_items(packed: bytes, max_depth: int, max_items: int = MAX_ITEMS) -> None:
    """UnsendableError if there are more values than a receiver accepts."""
    if len(packed) > CHECKED_BYTES:
        try:
            scan(packed, max_depth, max_items)
        except UnreadableError as error:
            raise UnsendableError(f"{error}: send it in parts, or as a NumPy array or a RecordBatch") from error


# -- to bytes ----------------------------------------------------------------------------------------------------------

_packer = msgpack.Packer(autoreset=True)


def pack_plain(value: object) -> bytes:
    """One call of msgpack. The packer is reused, since a new buffer costs more than the packing."""
    packed: bytes = _packer.pack(value)
    if len(packed) > _KEPT_BYTES:
        _forget()
    return packed


_pack = pack_plain


def _forget() -> None:
    """Replace the packer, whose buffer has become large."""
    global _packer
    _packer = msgpack.Packer(autoreset=True)


def _walk(value: Value, depth: int, plain: frozenset[type]) -> Walked:
    """The value in types that msgpack can encode. `depth`: the number of containers around it."""
    kind = type(value)
    if kind in plain:
        return value
    if kind is tuple:
        return _walk_all(value, depth, plain, "[{}]")
    if kind is list:
        return msgpack.ExtType(ext.LIST, _pack(_walk_all(value, depth, plain, "[{}]")))
    if kind is dict:
        return _walk_dict(value, depth, plain)
    if kind is set or kind is frozenset:
        _check_hashes(value)
        return msgpack.ExtType(
            ext.SET if kind is set else ext.FROZENSET, _pack(_walk_all(tuple(value), depth, plain, "{{{}}}"))
        )
    if kind is int:
        return value if -(2**63) <= value < 2**64 else msgpack.ExtType(ext.BIG_INT, ext.encode_int(value))
    if kind is str:
        return msgpack.ExtType(ext.SURROGATES, value.encode("utf-8", "surrogatepass")) if _broken(value) else value
    return _walk_other(value, kind, depth, plain)


def _walk_column(values: Sequence[Value], plain: frozenset[type]) -> list[Walked]:
    made: list[Walked] = []
    try:
        for value in values:
            made.append(_walk(value, 0, plain))  # noqa: PERF401 - its length is the position of an error
    except UnsendableError as error:
        raise UnsendableError(error.reason, error.path, offset=len(made)) from error.__cause__
    return made


def _walk_all(values: Sequence[Value], depth: int, plain: frozenset[type], step: str) -> Sequence[Walked]:
    _check_depth(depth)
    check_length(values)
    kinds = set(map(type, values))
    try:
        check_sizes(values, kinds)
    except UnsendableError as error:
        raise error.inside(step.format(error.offset)) from None
    if kinds <= plain:
        return values
    made: list[Walked] = []
    try:
        for value in values:
            made.append(_walk(value, depth + 1, plain))  # noqa: PERF401 - its length is the position of an error
    except UnsendableError as error:
        raise error.inside(step.format(len(made))) from error.__cause__
    return made


def _walk_dict(value: dict[Value, Value], depth: int, plain: frozenset[type]) -> Walked:
    _check_depth(depth)
    check_length(value)
    try:
        check_sizes((*value.values(), *value))
    except UnsendableError as error:
        at = error.offset or 0
        key = _shown(list(value)[at % len(value)])
        raise error.inside(f"[{key}]" if at < len(value) else f"{{key {key}}}") from None
    if plain is PLAIN and _STR.issuperset(map(type, value)):
        if plain.issuperset(map(type, value.values())):
            return value
        return dict(zip(value, _walk_values(value, depth, plain), strict=True))
    keys = [_walk_key(key, depth, plain) for key in value]
    made = _walk_values(value, depth, plain)
    if _STR.issuperset(map(type, keys)):
        return dict(zip(keys, made, strict=True))
    _check_hashes(value)
    return msgpack.ExtType(ext.DICT, _pack([part for pair in zip(keys, made, strict=True) for part in pair]))


def _walk_key(key: Value, depth: int, plain: frozenset[type]) -> Walked:
    try:
        return _walk(key, depth + 1, plain)
    except UnsendableError as error:
        raise error.inside(f"{{key {key!r:.40}}}") from error.__cause__


def _walk_values(value: dict[Value, Value], depth: int, plain: frozenset[type]) -> list[Walked]:
    made: list[Walked] = []
    for key, item in value.items():
        try:
            made.append(_walk(item, depth + 1, plain))
        except UnsendableError as error:
            raise error.inside(f"[{key!r:.40}]") from error.__cause__
    return made


def _walk_other(value: Value, kind: type, depth: int, plain: frozenset[type]) -> Walked:
    encoder = ext.ENCODERS.get(kind)
    if encoder is not None:
        try:
            return msgpack.ExtType(encoder[0], encoder[1](value))
        except ext.UnfitError as error:
            raise UnsendableError(str(error)) from error
    record = record_of(kind)
    if record is not None:
        _check_depth(depth)
        try:
            unset, fields = record.take(value)
        except AttributeError as error:
            raise UnsendableError(f"a {record.name} without its field {error.name!r}") from error
        _check_fields(fields)
        parts: list[Walked] = [record.name, len(unset)]
        for field, part in (*unset.items(), *fields.items()):
            try:
                parts += (_walk(field, depth + 1, plain), _walk(part, depth + 1, plain))
            except UnsendableError as error:
                raise error.inside(f".{field}") from error.__cause__
        return msgpack.ExtType(ext.RECORD, _pack(parts))
    member = encode_enum(value) if hasattr(kind, "__members__") else None
    if member is not None:
        return msgpack.ExtType(ext.ENUM, member)
    if _refs is not None and (ref := _refs.encode_ref(value)) is not None:
        return msgpack.ExtType(ext.REF, ref)
    return _walk_foreign(value, kind)


def _check_fields(fields: Mapping[str, Value]) -> None:
    try:
        check_sizes(tuple(fields.values()))
    except UnsendableError as error:
        raise error.inside(f".{list(fields)[error.offset or 0]}") from None


def _shown(key: Value) -> str:
    return repr(key[:40] if type(key) in (str, bytes) else key)[:40]


def _walk_foreign(value: Value, kind: type) -> Walked:
    """Encode values of NumPy and pyarrow, which exist only if the module is imported."""
    # Another thread may be importing the module: it is in sys.modules already, but incomplete.
    numpy, arrow = sys.modules.get("numpy"), sys.modules.get("pyarrow")
    try:
        if kind is getattr(numpy, "ndarray", None):
            return msgpack.ExtType(ext.ARRAY, _numpy().encode_array(value))
        if issubclass(kind, getattr(numpy, "generic", ())):
            return msgpack.ExtType(ext.NUMPY_SCALAR, _numpy().encode_scalar(value))
        if kind is getattr(arrow, "RecordBatch", None):
            return msgpack.ExtType(ext.RECORD_BATCH, batch_module().encode_batch(value))
    except ext.UnfitError as error:
        raise UnsendableError(str(error)) from error
    raise UnsendableError(advice(kind))


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise UnsendableError(f"it is nested more than {MAX_DEPTH} deep (or it holds itself): send it flatter")


def _check_hashes(keys: Collection[Value]) -> None:
    try:
        ext.check_hashes(keys)
    except ValueError as error:
        raise UnsendableError(f"{error}: send it as a list") from error


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


_STR: Final = frozenset({str})


# -- from bytes --------------------------------------------------------------------------------------------------------


def _no_extension(code: int, data: bytes) -> Received:
    raise UnreadableError(f"extension type {code} in a column of plain values")


def _from_map(pairs: list[tuple[Received, Received]]) -> dict[str, Received]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UnreadableError("a dict has a key twice")
    if not _STR.issuperset(map(type, made)):
        raise UnreadableError("a map's keys are str; others are an extension")
    return made


def _from_extension(code: int, data: bytes) -> Received:
    decoder = ext.DECODERS.get(code)
    if decoder is not None:
        return decoder(data)
    if code == ext.ENUM:
        return decode_enum(data)
    if code == ext.REF and _refs is not None:
        return _refs.decode_ref(data)
    if code == ext.ARRAY:
        return _numpy().decode_array(data)
    if code == ext.NUMPY_SCALAR:
        return _numpy().decode_scalar(data)
    if code == ext.RECORD_BATCH:
        return batch_module().decode_batch(data)
    if code not in ext.NESTED:
        raise UnreadableError(f"extension type {code} is not for this place")
    items = decode(data)
    if type(items) is not tuple:
        raise UnreadableError(f"extension type {code} holds no array")
    if code == ext.LIST:
        return list(items)
    if code == ext.RECORD:
        return _from_record(items)
    if code == ext.DICT:
        return _from_dict(items)
    ext.check_hashes(items)
    made = set(items) if code == ext.SET else frozenset(items)
    if len(made) != len(items):
        raise UnreadableError("a set has a member twice")
    return made


def _from_dict(items: tuple[Received, ...]) -> dict[Received, Received]:
    keys = items[::2]
    ext.check_hashes(keys)
    made = dict(zip(keys, items[1::2], strict=True))
    if len(made) != len(keys):
        raise UnreadableError("a dict has a key twice")
    if _STR.issuperset(map(type, keys)) and not any(map(_broken, keys)):
        raise UnreadableError("a dict whose keys are str is a map")
    return made


def _from_record(items: tuple[Received, ...]) -> Received:
    name, unset, *parts = items
    fields, values = parts[::2], parts[1::2]
    if type(name) is not str or type(unset) is not int or not 0 <= unset <= len(fields):
        raise UnreadableError("a record begins with its name, and how many of its fields were not set")
    pairs = list(zip(fields, values, strict=True))
    if not _STR.issuperset(map(type, fields)) or len(dict(pairs)) != len(pairs):
        raise UnreadableError(f"a record {name!r:.300} has a field twice, or one that is no str")
    return make_record(name, dict(pairs[:unset]), dict(pairs[unset:]))


def _numpy() -> ModuleType:
    return _extra(".arrays", "NumPy arrays need NumPy")


def batch_module() -> ModuleType:
    """The module that encodes a RecordBatch. UnreadableError without pyarrow, when a batch was received."""
    return _extra(".batches", "columns need pyarrow")


def _extra(module: str, what: str) -> ModuleType:
    try:
        return import_module(module, __package__)
    except ImportError as error:
        raise UnreadableError(f'{what} ({error}): install it with pip install "aiostorm[arrow]"') from error
