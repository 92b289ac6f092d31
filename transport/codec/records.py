"""Records: classes whose values may be sent, each under a name that both sides know.

    @register_record                   sender: Reading(…) ─▶ name, field, value, field, value … ─▶ receiver: Reading(…)
    @dataclass(frozen=True)
    class Reading: …

1. Only classes registered in this process are made: a name in a frame never causes an import.
2. One name is one class. The name is `module:qualname` unless another is given; both sides need the same.
3. A record must have exactly the fields of its class. A dataclass is made by calling the class, so that its checks run;
   its fields are then those that were sent. A pydantic model is validated again. A NamedTuple is made of its fields.
4. A member of an Enum is sent by its name, a Flag by its value.

Classes that may be registered: dataclasses, pydantic models, NamedTuples, Enums.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, overload

from ..errors import RecordError, UnreadableError
from .names import RecordClass, Value

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Pairs = dict[str, Value]
MAX_NAME_BYTES: Final = 255

C = TypeVar("C", bound=type)


class Record:
    """A registered class: how its values are taken apart and made again."""

    __slots__ = ("cls", "make", "name", "take")

    def __init__(
        self,
        cls: type,
        name: str,
        take: Callable[[Value], tuple[Pairs, Pairs]],
        make: Callable[[Pairs, Pairs], Value],
    ) -> None:
        self.cls = cls
        self.name = name
        self.take = take
        """The fields that were not set when it was made (pydantic only), and those that were."""
        self.make = make


_BY_CLASS: Final[dict[type, Record]] = {}
_BY_NAME: Final[dict[str, Record]] = {}
_ENUMS: Final[dict[type, str]] = {}
_ENUM_NAMES: Final[dict[str, type[enum.Enum]]] = {}


@overload
def register_record(cls: C, /, name: str | None = None) -> C: ...
@overload
def register_record(cls: None = None, /, name: str | None = None) -> Callable[[C], C]: ...
def register_record(cls: C | None = None, /, name: str | None = None) -> C | Callable[[C], C]:
    """Allow values of a class to be sent to other processes. Also a decorator, with or without `(name=…)`.

    For dataclasses, pydantic models, NamedTuples and Enums. Every process that sends or receives one registers it
    under the same name (default: `module:qualname`): usually by importing the module that defines it. Registering it
    again is nothing. RecordError if the class is of another kind, or if the name is another's.
    """
    if cls is None:
        return lambda decorated: register_record(decorated, name)
    if not isinstance(cls, type):
        raise RecordError(f"register_record takes a class, not {cls!r:.200}")
    _register(cls, name or f"{cls.__module__}:{cls.__qualname__}")
    return cls


def _register(cls: type, name: str) -> None:
    if not name or "\0" in name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise RecordError(f"the name of a record has 1 to {MAX_NAME_BYTES} bytes and no NUL: {name!r:.300}")
    known = record_named(name)
    own = _ENUMS.get(cls) or (_BY_CLASS[cls].name if cls in _BY_CLASS else None)
    if known is cls:
        return
    if known is not None:
        raise RecordError(
            f"two classes are registered as {name!r}: {known!r} and {cls!r}; give one another name: "
            "register_record(cls, name=…)"
        )
    if own is not None:
        raise RecordError(f"{cls!r} is registered as {own!r} already, and cannot be {name!r} too")
    if issubclass(cls, enum.Enum):
        _ENUMS[cls] = name
        _ENUM_NAMES[name] = cls
    else:
        _BY_CLASS[cls] = _BY_NAME[name] = _record(cls, name)


def record_named(name: str) -> type | None:
    """The class registered under this name."""
    found = _BY_NAME.get(name)
    return found.cls if found is not None else _ENUM_NAMES.get(name)


def record_of(cls: type) -> Record | None:
    """The record of a class, if it is registered and no Enum."""
    return _BY_CLASS.get(cls)


def make_record(name: str, unset: Pairs, fields: Pairs) -> Value:
    """Make a received record. UnreadableError if its name is not registered here, or its fields differ."""
    record = _BY_NAME.get(name)
    if record is None:
        raise _unknown(name)
    try:
        return record.make(unset, fields)
    except UnreadableError:
        raise
    except Exception as error:  # any error of the class's own checks
        raise UnreadableError(f"a {name} came that its class refuses: {type(error).__qualname__}") from error


def encode_enum(member: enum.Enum) -> bytes | None:
    """Encode a member of an Enum; None if the Enum is not registered."""
    name = _ENUMS.get(type(member))
    if name is None:
        return None
    shown = str(member.value) if isinstance(member, enum.Flag) else member.name
    return f"{name}\0{shown}".encode()


def decode_enum(data: bytes) -> enum.Enum:
    """Decode a member of an Enum. UnreadableError if Enum or member are not known here."""
    name, _, shown = data.decode().partition("\0")
    cls = _ENUM_NAMES.get(name)
    if cls is None:
        raise _unknown(name)
    try:
        member = cls(int(shown)) if issubclass(cls, enum.Flag) else cls[shown]
    except (KeyError, ValueError) as error:
        raise UnreadableError(f"{name} has no member {shown!r:.80} here: do both sides run the same code?") from error
    if encode_enum(member) != data:
        raise UnreadableError(f"{shown!r:.80} is not how a member of {name} is written")
    return member


def advice(cls: type) -> str:
    """The error text for a class that cannot be sent: why, and what to do."""
    shown = f"a value of type {cls.__module__}.{cls.__qualname__} cannot be sent to another process"
    if issubclass(cls, enum.Enum) or dataclasses.is_dataclass(cls) or _is_model(cls) or _is_named_tuple(cls):
        return f"{shown}: register the class, in every process, with aiostorm.register_record({cls.__qualname__})"
    for plain in (dict, list, tuple, set, frozenset, str, int, float, bytes):
        if issubclass(cls, plain):
            return f"{shown}: it is a {plain.__name__} of its own kind; send {plain.__name__}(value)"
    return f"{shown}: send plain values, or a dataclass registered with aiostorm.register_record"


def _unknown(name: str) -> UnreadableError:
    module = name.partition(":")[0]
    return UnreadableError(
        f"a record {name!r:.300} came, which is not registered in this process: import the module that defines it "
        f"({module!r:.100}?) here too, and register the class there with aiostorm.register_record"
    )


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _record(cls: type, name: str) -> Record:
    if _is_named_tuple(cls):
        return _named_tuple(cls, name)
    if dataclasses.is_dataclass(cls) and not issubclass(cls, dict | list | set | frozenset | tuple | str | bytes | int):
        return _dataclass(cls, name)
    if _is_model(cls):
        return _model(cls, name)
    raise RecordError(
        f"{cls!r} cannot be registered: it is no dataclass, pydantic model, NamedTuple or Enum. Make it one of them"
    )


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _is_model(cls: type) -> bool:
    return issubclass(cls, getattr(sys.modules.get("pydantic"), "BaseModel", ()))


def _same_fields(name: str, expected: frozenset[str], fields: Pairs) -> None:
    given = fields.keys()
    if given != expected:
        differ = ", ".join(sorted(given ^ expected))
        raise UnreadableError(
            f"a {name} came with other fields than it has here ({differ:.300}): do both sides run the same code?"
        )


def _named_tuple(cls: RecordClass, name: str) -> Record:
    names: tuple[str, ...] = cls._fields
    expected = frozenset(names)

    def make(unset: Pairs, fields: Pairs) -> Value:
        _same_fields(name, expected, fields)
        return cls._make([fields[field] for field in names])

    return Record(cls, name, lambda value: ({}, dict(zip(names, value, strict=True))), make)


def _dataclass(cls: RecordClass, name: str) -> Record:
    declared = dataclasses.fields(cls)
    names = tuple(field.name for field in declared)
    given = tuple(field.name for field in declared if field.init)
    expected = frozenset(names)
    if any(kind is dataclasses._FIELD_INITVAR for kind in _field_kinds(cls)):  # type: ignore[attr-defined]
        raise RecordError(f"{cls!r} cannot be registered: its InitVar fields are not kept once it is made")
    called = cls.__dataclass_params__.init
    exact = not called or len(given) < len(names) or hasattr(cls, "__post_init__")

    def make(unset: Pairs, fields: Pairs) -> Value:
        _same_fields(name, expected, fields)
        made = cls(**{field: fields[field] for field in given}) if called else object.__new__(cls)
        if exact:  # a __post_init__ may have changed the fields a second time
            for field, value in fields.items():
                object.__setattr__(made, field, value)
        return made

    return Record(cls, name, lambda value: ({}, {field: getattr(value, field) for field in names}), make)


def _field_kinds(cls: RecordClass) -> list[object]:
    return [field._field_type for field in cls.__dataclass_fields__.values()]


def _model(cls: RecordClass, name: str) -> Record:
    if cls.__private_attributes__:
        raise RecordError(f"{cls!r} cannot be registered: its private attributes would not travel. Make them fields")
    keys = {field: _input_key(cls, field, info) for field, info in cls.model_fields.items()}
    expected = frozenset(keys)
    extra = cls.model_config.get("extra") == "allow"
    root = getattr(cls, "__pydantic_root_model__", False)

    def take(value: Value) -> tuple[Pairs, Pairs]:
        everything = {field: getattr(value, field) for field in keys} | (value.model_extra or {})
        was_set = value.model_fields_set
        unset = {field: everything.pop(field) for field in keys if field not in was_set}
        return unset, everything

    def make(unset: Pairs, fields: Pairs) -> Value:
        given = unset | fields
        if not extra or not given.keys() >= expected:
            _same_fields(name, expected, given)
        if root:
            return cls.model_validate(given["root"])
        made = cls.model_validate({keys.get(field, field): value for field, value in given.items()})
        made.model_fields_set.difference_update(unset)
        return made

    return Record(cls, name, take, make)


def _input_key(cls: RecordClass, field: str, info: FieldInfo) -> str:
    """The keyword by which the model accepts a field."""
    config = cls.model_config
    alias = info.validation_alias
    if alias is None or config.get("populate_by_name") or config.get("validate_by_name"):
        return field
    for choice in getattr(alias, "choices", (alias,)):
        if isinstance(choice, str):
            return choice
    raise RecordError(
        f"{cls!r} cannot be registered: field {field!r} has no alias that is a name. Set populate_by_name"
    )
