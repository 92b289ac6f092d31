"""Groupings: the rules that pick the target tasks of a row, or of each row of a batch of columns.

One file a grouping, with its code for rows and for columns. base.py has the base class, shares.py the shares of a
batch, keyed.py the base of groupings by key (key_memory.py remembers their targets), spreading.py the base of groupings
that can choose among targets (pieces.py: how many rows in a row go to one target).
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
