"""Shown: records of topologies as others may see them: without the secrets of their settings and arguments. Pure.

The store has them, and the processes of a topology need them. Who may look at a topology need not know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...topology import shown_value

if TYPE_CHECKING:
    from .records import TopologyRecord

_Record = TypeVar("_Record", bound="TopologyRecord")


def shown_record(record: _Record) -> _Record:
    """The record with `***` for each secret, also in the records that it contains."""
    shown: _Record = _shown(record)
    return shown


def _shown(record: Any) -> Any:
    values = ((each.name, getattr(record, each.name)) for each in fields(record))
    return replace(record, **{name: _shown_field(name, value) for name, value in values})


def _shown_field(name: str, value: Any) -> Any:
    if is_dataclass(value):
        return _shown(value)
    if name in ("config", "updates") and isinstance(value, Mapping):
        return {key: shown_value(key, each) for key, each in value.items()}
    if name == "arguments":
        return tuple(shown_value(name, each) for each in value)
    return value
