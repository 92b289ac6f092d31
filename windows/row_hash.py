"""Row hashes: the hash that decides which task gets a row, from the key of its windows or from the row itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..topology import stable_hash
from .floors import HASHES

if TYPE_CHECKING:
    from ..topology import Tuple
    from .values import RowKey, Value


class KeyHash:
    """The hash of the values at some places of the key of the windows. `single`: the key is one value, and no tuple."""

    __slots__ = ("_places", "_single")

    def __init__(self, places: Sequence[int], *, single: bool) -> None:
        self._places = tuple(places)
        self._single = single

    def of(self, key: RowKey, row: Tuple | None = None) -> int:
        values = (key,) if self._single else key
        return stable_hash(tuple([values[place] for place in self._places]))

    def dump(self) -> Value:
        return "key", self._single, self._places


class FieldsHash:
    """The hash of the values at some places of a row, by its component and stream."""

    __slots__ = ("_places",)

    def __init__(self, places: Mapping[tuple[str, str], Sequence[int]]) -> None:
        self._places = {source: tuple(some) for source, some in places.items()}

    def of(self, key: RowKey, row: Tuple | None) -> int:
        assert row is not None  # noqa: S101 - for the type checker: windows that keep their rows have them
        return self.of_values(row.source_component, row.stream, row.values)

    def of_values(self, component: str, stream: str, values: Sequence[Value]) -> int:
        """Of a row with these values. LookupError if no such rows are known."""
        return stable_hash(tuple([values[place] for place in self._places[component, stream]]))

    def dump(self) -> Value:
        return "fields", [(component, stream, places) for (component, stream), places in self._places.items()]


def _load_key_hash(single: Value, places: Sequence[int]) -> KeyHash:
    return KeyHash(places, single=bool(single))


def _load_fields_hash(places: Sequence[tuple[str, str, Sequence[int]]]) -> FieldsHash:
    return FieldsHash({(component, stream): some for component, stream, some in places})


HASHES["key"] = _load_key_hash
HASHES["fields"] = _load_fields_hash
