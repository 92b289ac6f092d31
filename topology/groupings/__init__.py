"""Groupings: the rules that pick the target tasks of a row, or of each row of a batch of columns.

One file a grouping, with its code for rows and its code for columns. Beside them: base.py has the base class, shares.py
what a grouping gives to each target, keyed.py what groupings by key have in common (key_memory.py: where each key goes,
remembered), spreading.py what those have in common that leave a choice (pieces.py: how many rows one target is dealt in
a row).
"""

from .all import AllGrouping
from .base import Grouping, GroupingContext, never
from .custom import CustomGrouping
from .direct import DirectGrouping
from .fields import FieldsGrouping
from .global_ import GlobalGrouping
from .key_range import KeyRangeGrouping, KeyRanges
from .keyed import KeyedGrouping
from .local_first import LocalFirstGrouping
from .local_or_shuffle import LocalOrShuffleGrouping
from .none import NoneGrouping
from .partial_key import PartialKeyGrouping
from .shares import Share, share_each, share_out
from .shuffle import ShuffleGrouping
from .spreading import Rest, Spreading

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
