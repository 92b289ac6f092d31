"""Joins: the rows of several inputs that are in the same window.

clauses.py describes which inputs are joined by which fields, as in SQL; hash.py joins; bolt.py is the bolt that users
declare.
"""

from .bolt import JoinBolt
from .clauses import Joins
from .hash import HashJoin, JoinKind

__all__ = [
    "HashJoin",
    "JoinBolt",
    "JoinKind",
    "Joins",
]
