"""Records: registered classes travel by name, and nothing else becomes an object of a class."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgpack
import pydantic
import pytest

import aiostorm
from aiostorm.transport import RecordError, UnreadableError, UnsendableError, pack_value, register_record, unpack_value
from aiostorm.transport.codec import records as registry


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    with monkeypatch.context() as patched:
        for name in ("_BY_CLASS", "_BY_NAME", "_ENUMS", "_ENUM_NAMES"):
            patched.setattr(registry, name, dict(getattr(registry, name)))
        yield


@dataclass
class Reading:
    celsius: float
    tags: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "reading"


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Any
    doubled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.doubled * 2 + 1)


@dataclass
class Positive:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("negative")


@dataclass(init=False)
class Bare:
    a: int


class Point(NamedTuple):
    x: int
    y: Any = None


class Colour(enum.IntEnum):
    RED = 1
    ALSO_RED = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Model(pydantic.BaseModel):
    count: int = 1
    name: str = pydantic.Field("none", alias="label")
    inner: list[Any] = []


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    count: int = 1


class Root(pydantic.RootModel[list[int]]):
    pass


def back(value: Any) -> Any:
    found = unpack_value(pack_value(value))
    assert type(found) is type(value)
    return found


def extension(code: int, *parts: Any) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(code, msgpack.packb(parts)))
    return packed


def test_aiostorm_exports_register_record_and_its_error() -> None:
    assert aiostorm.register_record is register_record
    assert aiostorm.UnsendableError is UnsendableError


def test_dataclasses() -> None:
    for cls in (Reading, Frozen, Bare, Positive):
        register_record(cls)
    bare = Bare()
    bare.a = 3
    for value in (Reading(1.5, ["x"]), Frozen((Frozen(1), {2: Reading(0.0)})), bare):
        assert back(value) == value, "a __post_init__ that would change it again does not"
    del bare.a
    with pytest.raises(UnsendableError, match="without its field 'a'"):
        pack_value(bare)


def test_the_place_of_what_cannot_be_sent_goes_through_fields() -> None:
    register_record(Reading)
    with pytest.raises(UnsendableError, match=r"^at \[0\]\.tags\[1\]: a value of type builtins.object"):
        pack_value([Reading(1.0, ["x", object()])])  # type: ignore[list-item]


def test_named_tuples_and_enums() -> None:
    for cls in (Point, Colour, Rights):
        register_record(cls)
    assert back(Point(1, [Point(2)])) == Point(1, [Point(2)])
    assert back(Colour.ALSO_RED) is Colour.RED
    for rights in (Rights.READ, Rights.READ | Rights.WRITE, Rights(0)):
        assert back(rights) is rights
    assert unpack_value(pack_value({Colour.RED: {Point(1)}})) == {Colour.RED: {Point(1)}}


def test_pydantic_models() -> None:
    for cls in (Model, Open, Root):
        register_record(cls)
    for model in (Model(), Model(label="x"), Model(count=3, inner=[(1, {2})])):
        found = back(model)
        assert found == model
        assert found.model_fields_set == model.model_fields_set
    assert back(Open(count=2, more="x")) == Open(count=2, more="x")  # type: ignore[call-arg]
    assert back(Root([1, 2])) == Root([1, 2])


def test_a_name_is_one_class() -> None:
    assert register_record(Reading) is Reading
    assert register_record(Reading) is Reading, "twice is once"

    @register_record(name="other")
    @dataclass
    class Other:
        a: int

    assert back(Other(1)) == Other(1)
    with pytest.raises(RecordError, match="two classes are registered as 'other'"):
        register_record(Point, name="other")
    with pytest.raises(RecordError, match="registered as 'other' already"):
        register_record(Other, name="third")
    for name in ("a\0b", "x" * 256):
        with pytest.raises(RecordError, match="1 to 255 bytes"):
            register_record(Point, name=name)


def test_the_error_of_an_unregistrable_class_has_the_reason() -> None:
    @dataclass
    class WithInitVar:
        a: InitVar[int]

    class WithPrivate(pydantic.BaseModel):
        _hidden: int = 1

    class Deep(pydantic.BaseModel):
        a: int = pydantic.Field(1, validation_alias=pydantic.AliasPath("b", 0))

    for cls, message in (
        (int, "no dataclass, pydantic model, NamedTuple or Enum"),
        (WithInitVar, "InitVar"),
        (WithPrivate, "private attributes"),
        (Deep, "populate_by_name"),
        (dataclasses.make_dataclass("Listed", ["a"], bases=(list,)), "no dataclass"),
        (Reading(1.0), "takes a class"),
    ):
        with pytest.raises(RecordError, match=message):
            register_record(cls)  # type: ignore[type-var] # one of them is no class


# -- what comes --------------------------------------------------------------------------------------------------------


def test_an_unknown_name_says_what_to_import() -> None:
    for frame in (extension(5, "shop.orders:Order", 0), msgpack.packb(msgpack.ExtType(6, b"shop.orders:Kind\0NEW"))):
        with pytest.raises(UnreadableError, match=r"not registered.*import the module.*\('shop.orders'\?\)"):
            unpack_value(frame)


@pytest.mark.parametrize(
    "parts",
    [
        ("reading", 0),
        ("reading", 0, "celsius", 1.0),
        ("reading", 0, "celsius", 1.0, "tags", (), "more", 1),
        ("reading", 0, "celsius", 1.0, "celsius", 1.0, "tags", ()),
        ("reading", 0, "celsius", 1.0, "tags"),
        ("reading", 0, 1, 1.0, "tags", ()),
        ("reading", 1, "celsius", 1.0, "tags", ()),
        ("reading", -1, "celsius", 1.0, "tags", ()),
        ("reading", 9, "celsius", 1.0, "tags", ()),
        ("reading", None, "celsius", 1.0, "tags", ()),
        ("reading",),
        (),
        (1, 0),
        ("positive", 0, "value", -1),
        ("model", 0, "count", "many", "name", "x", "inner", ()),
        ("model", 0, "count", 1, "label", "x", "inner", ()),
        ("open", 0),
        ("point", 0, "x", 1),
        ("point", 2, "x", 1, "y", 2),
        ("colour", 0),
    ],
)
def test_records_that_are_not_right_are_refused(parts: tuple[Any, ...]) -> None:
    for cls in (Reading, Positive, Model, Open, Point, Colour):
        register_record(cls, name=cls.__name__.lower())
    with pytest.raises(UnreadableError):
        unpack_value(extension(5, *parts))


@pytest.mark.parametrize(
    "data", [b"colour\0BLUE", b"colour\0", b"colour", b"rights\x004", b"rights\0x", b"rights\0 1", b"\xff"]
)
def test_members_that_are_not_right_are_refused(data: bytes) -> None:
    register_record(Colour, name="colour")
    register_record(Rights, name="rights")
    with pytest.raises(UnreadableError):
        unpack_value(msgpack.packb(msgpack.ExtType(6, data)))


def test_an_alias_of_a_member_is_not_how_it_is_written() -> None:
    register_record(Colour, name="colour")
    with pytest.raises(UnreadableError, match="is not how"):
        unpack_value(msgpack.packb(msgpack.ExtType(6, b"colour\0ALSO_RED")))
