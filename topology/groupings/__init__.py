"""Groupings: the rules that pick the target tasks of a row.

base.py has the base class and the groupings without memory (all, global, direct, custom). shuffles.py spreads rows
evenly (pieces.py: how many one target is dealt in a row), keyed.py sends equal keys to the same task (key_memory.py:
where each key goes, remembered).
"""

from .base import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    GlobalGrouping,
    Grouping,
    GroupingContext,
    Rest,
    Share,
    Spreading,
    never,
    share_each,
    share_out,
)
from .keyed import FieldsGrouping, KeyedGrouping, KeyRangeGrouping, KeyRanges, PartialKeyGrouping
from .shuffles import LocalFirstGrouping, LocalOrShuffleGrouping, NoneGrouping, ShuffleGrouping

__all__ = [
    "AllGrouping",
    "CustomGrouping",
    "DirectGrouping",
    "FieldsGrouping",
    "GlobalGrouping",
    "Grouping",
    "GroupingContext",
    "KeyRangeGrouping",
    "KeyRanges",
    "KeyedGrouping",
    "LocalFirstGrouping",
    "LocalOrShuffleGrouping",
    "NoneGrouping",
    "PartialKeyGrouping",
    "Rest",
    "Share",
    "ShuffleGrouping",
    "Spreading",
    "never",
    "share_each",
    "share_out",
]
