"""Roles: what the holder of a token may do. Pure.

public < viewer < operator < submitter < admin        each may do what those before it may
"""

from __future__ import annotations

import enum
from typing import Final


class Role(enum.Enum):
    """Who may send a request. Each request declares the lowest role that may send it."""

    PUBLIC = "public"
    """Any process that reaches the server. Of the page only: itself, without data, and whether the process lives."""
    VIEWER = "viewer"
    """May read."""
    OPERATOR = "operator"
    """May change what runs: activate, deactivate, rebalance, kill, settings."""
    SUBMITTER = "submitter"
    """May hand over code, which then runs as the user of the supervisors."""
    ADMIN = "admin"
    """May see who has a token, and revoke it."""

    def includes(self, needed: Role) -> bool:
        """May the holder of this role do what needs that one?"""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER: Final = tuple(Role)

GIVEN: Final = tuple(role for role in Role if role is not Role.PUBLIC)
"""The roles that a token can have."""
