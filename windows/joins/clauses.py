"""Joins: which inputs are joined by which fields, and which fields are emitted. As in SQL; hash.py does the joining.

    Joins.of("orders", "user").join("clicks", "user").left_join("users", "id", prior="orders")

    ((orders  inner join  clicks  on clicks.user = orders.user)  left join  users  on users.id = orders.user)

1. Inputs are named by their component, or `component:stream`; the first two need no `prior`.
2. A field is named alone if only one input has it, else `input:field`. A dot leads into a mapping: `user.name`.
3. An emitted field has the name in `select`, or the name after `as`: `orders:user as buyer`. Without a `select` all
   fields are emitted, in the order of the inputs; fields that several inputs have as `input:field`.
4. A chain that makes no sense is refused when it is declared. Errors that depend on the fields of the inputs are in
   `problems`.

From: Storm, JoinBolt. There a field that several inputs have is taken from the first input with a value, and a prior
stream is compared by the field by which it was joined itself (depart: by that, unless `prior_key` is given).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...topology import DEFAULT_STREAM, Fields, StreamId, nearest
from ..errors import WindowError
from ..values import is_tuple
from .hash import MAX_JOINED, Column, HashJoin, JoinKind, JoinStep

Names = str | Sequence[str]
"""The name of a field, or of several fields that form a key."""

FieldsOf = Mapping[StreamId, Fields]
"""The fields of each input."""

_AS: Final = re.compile(r"\s+as\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input, and how it is joined to the inputs before it. The first has no `kind` and no `prior`."""

    source: StreamId
    key: tuple[str, ...]
    kind: JoinKind | None = None
    prior: int = 0
    prior_key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectedField:
    """An emitted field: its reference and its name."""

    reference: str
    name: str


@dataclass(frozen=True, slots=True)
class Joins:
    """Immutable: each method returns a new one. WindowError if the clauses make no sense."""

    inputs: tuple[JoinInput, ...]
    selected: tuple[SelectedField, ...] = ()

    @classmethod
    def of(cls, source: str, key: Names) -> Joins:
        """The first input, and the key by which others are joined to it."""
        return cls((JoinInput(stream_id(source), key_names(key)),))

    def join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Joins:
        """Keep rows with a partner: `source.key = prior.prior_key`."""
        return self.joined(JoinKind.INNER, source, key, prior, prior_key)

    def left_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Joins:
        """Also keep rows of the inputs so far that have no partner."""
        return self.joined(JoinKind.LEFT, source, key, prior, prior_key)

    def right_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Joins:
        """Also keep rows of `source` that have no partner."""
        return self.joined(JoinKind.RIGHT, source, key, prior, prior_key)

    def full_join(self, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None) -> Joins:
        """Also keep rows of both sides that have no partner."""
        return self.joined(JoinKind.FULL, source, key, prior, prior_key)

    def joined(
        self, kind: JoinKind, source: str, key: Names, prior: str | None = None, prior_key: Names | None = None
    ) -> Joins:
        """Add one input."""
        stream = stream_id(source)
        names_before = [str(joined.source) for joined in self.inputs]
        if str(stream) in names_before:
            raise WindowError(f"{stream} is joined already; an input can be joined once")
        if prior is None and len(names_before) > 1:
            raise WindowError(
                f"to which of {', '.join(names_before)} is {stream} joined? Name it: prior={names_before[0]!r}"
            )
        name = names_before[0] if prior is None else str(stream_id(prior))
        if name not in names_before:
            raise WindowError(
                f"{stream} is joined to {name}, which is not an input before it: give one of {', '.join(names_before)}"
            )
        at = names_before.index(name)
        names, names_there = key_names(key), key_names(self.inputs[at].key if prior_key is None else prior_key)
        if len(names) != len(names_there):
            raise WindowError(
                f"{stream} is joined by {len(names)} field(s) ({', '.join(names)}) to {len(names_there)} of {name} "
                f"({', '.join(names_there)}); give as many, or other fields of {name}: prior_key=…"
            )
        return replace(self, inputs=(*self.inputs, JoinInput(stream, names, kind, at, names_there)))

    def select(self, *references: str) -> Joins:
        """Choose the fields and their order: `"user, clicks:url as page"`, or one argument each."""
        selected = tuple(_selected(one) for text in references for one in _parts(text))
        names = [one.name for one in selected]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names or twice:
            raise WindowError(
                f"select gives {', '.join(twice)} twice; call one of them otherwise: '{twice[0]} as …'"
                if twice
                else "select of nothing; name fields: select('user, clicks:url')"
            )
        return replace(self, selected=selected)

    def outputs(self, fields: FieldsOf | None = None) -> Fields:
        """The names of the emitted fields. Without a `select` they depend on the fields of the inputs."""
        if self.selected:
            return Fields(one.name for one in self.selected)
        if fields is None:
            raise WindowError("what a join gives without a select depends on its inputs; name the fields: select(…)")
        return Fields(name for name, _ in self._all(fields))

    def problems(self, fields: FieldsOf) -> list[str]:
        """All errors that depend on the fields of the inputs: each names the input and the field."""
        known = [joined.source for joined in self.inputs]
        missing = [
            f"join: it does not read {source}, which is joined; call a grouping on it"
            for source in known
            if source not in fields
        ]
        extra = [f"join: it reads {source}, which is joined to nothing" for source in fields if source not in known]
        if missing:
            return missing + extra
        return extra + list(dict.fromkeys(found for found in self._all_columns(fields) if isinstance(found, str)))

    def machine(self, fields: FieldsOf, *, max_rows: int = MAX_JOINED) -> HashJoin:
        """The machine that joins these inputs, in the order of declaration. WindowError: see `problems`."""
        problems = self.problems(fields)
        if problems:
            raise WindowError("; ".join(problems))
        steps = [
            JoinStep(joined.kind, self._key(joined.prior, joined.prior_key, fields), self._key(at, joined.key, fields))
            for at, joined in enumerate(self.inputs)
            if joined.kind is not None
        ]
        columns = [column for _, column in self._given(fields) if isinstance(column, Column)]
        return HashJoin(steps, columns, max_rows=max_rows)

    @property
    def by_one_key(self) -> bool:
        """Whether all inputs are joined by one and the same key."""
        return all(joined.prior_key in ((), self.inputs[joined.prior].key) for joined in self.inputs)

    def keys(self, fields: FieldsOf) -> list[tuple[Column, ...]]:
        """For each input, the fields by which it is joined."""
        return [self._key(at, joined.key, fields) for at, joined in enumerate(self.inputs)]

    def _all_columns(self, fields: FieldsOf) -> Iterator[Column | str]:
        """All fields that are referenced: the column, or the error."""
        for at, joined in enumerate(self.inputs):
            yield from (self._field(at, name, fields) for name in joined.key)
            yield from (self._field(joined.prior, name, fields) for name in joined.prior_key)
        yield from (column for _, column in self._given(fields))

    def _key(self, at: int, names: Sequence[str], fields: FieldsOf) -> tuple[Column, ...]:
        found = [self._field(at, name, fields) for name in names]
        return tuple(column for column in found if isinstance(column, Column))

    def _field(self, at: int, name: str, fields: FieldsOf) -> Column | str:
        """A field of one input."""
        source = self.inputs[at].source
        column = _column(at, source, name, fields[source])
        return column or f"join: {source} has no field {name!r}{_hint(name, fields[source])}"

    def _given(self, fields: FieldsOf) -> list[tuple[str, Column | str]]:
        """The emitted fields by name."""
        if self.selected:
            return [(one.name, self._find(one.reference, fields)) for one in self.selected]
        return self._all(fields)

    def _find(self, reference: str, fields: FieldsOf) -> Column | str:
        """A field of any input. A reference that begins with the name of an input is looked up there first."""
        qualified: list[Column | None] = []
        plain: list[Column | None] = []
        for at, joined in enumerate(self.inputs):
            names = fields[joined.source]
            prefix = next((one for one in _prefixes(joined.source) if reference.startswith(one)), None)
            if prefix is not None:
                qualified.append(_column(at, joined.source, reference[len(prefix) :].strip(), names))
            plain.append(_column(at, joined.source, reference, names))
        found = _exact_first(qualified) or _exact_first(plain)
        if len(found) == 1:
            return found[0]
        if found:
            which = " or ".join(f"{self.inputs[column.input].source}:{reference}" for column in found)
            return f"join: several inputs have a field {reference!r}; which is meant: {which}?"
        every = [name for name, _ in self._all(fields)]
        return f"join: select names {reference!r}, which no input has{_hint(reference, every)}"

    def _all(self, fields: FieldsOf) -> list[tuple[str, Column | str]]:
        """All fields, by their shortest unique names."""
        every = [(at, joined.source, name) for at, joined in enumerate(self.inputs) for name in fields[joined.source]]
        taken = [name for _, _, name in every] + [f"{source}:{name}" for _, source, name in every]
        return [
            (name if taken.count(name) == 1 else f"{source}:{name}", Column(at, fields[source].position(name)))
            for at, source, name in every
        ]


def stream_id(name: object) -> StreamId:
    """The stream named by `component` or `component:stream`."""
    if not isinstance(name, str) or not name.strip():
        raise WindowError(f"an input of a join is {name!r}; give a component's id, or 'component:stream'")
    component, _, stream = name.strip().partition(":")
    return StreamId(component, stream or DEFAULT_STREAM)


def key_names(key: str | Sequence[str]) -> tuple[str, ...]:
    """The field names of a key."""
    given = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list) else key if is_tuple(key) else ()
    names = tuple(name for name in given if isinstance(name, str) and name)
    if not names or len(names) < len(given):
        raise WindowError(f"a join by {key!r}; give the name of a field, or a tuple of names")
    return names


def _parts(text: object) -> list[str]:
    if not isinstance(text, str):
        raise WindowError(f"select of {text!r}; give names: select('user, clicks:url')")
    return [part.strip() for part in text.split(",") if part.strip()]


def _selected(part: str) -> SelectedField:
    reference, *name = _AS.split(part)
    return SelectedField(reference, name[-1] if name else reference)


def _prefixes(source: StreamId) -> tuple[str, ...]:
    whole = f"{source.component}:{source.stream}:"
    return (whole, f"{source}:") if source.stream == DEFAULT_STREAM else (whole,)


def _column(at: int, source: StreamId, name: str, fields: Fields) -> Column | None:
    """A field, or a path into one; None: there is no such field."""
    if name in fields:
        return Column(at, fields.position(name), (), f"{source}:{name}")
    first, *path = name.split(".")
    if path and first in fields:
        return Column(at, fields.position(first), tuple(path), f"{source}:{name}")
    return None


def _exact_first(found: Sequence[Column | None]) -> list[Column]:
    """The columns that were found: fields, or paths if there are no fields."""
    columns = [column for column in found if column is not None]
    return [column for column in columns if not column.path] or columns


def _hint(name: str, names: Sequence[str]) -> str:
    like = nearest(name, names)
    return f"; there are: {', '.join(names) or '(none)'}" if like is None else f"; did you mean {like!r}?"
