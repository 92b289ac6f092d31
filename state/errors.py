"""Errors of state: a wrong declaration, a value that cannot be saved, a snapshot that cannot be written or read."""

from __future__ import annotations

from ..runtime import AiostormError


class StateError(AiostormError):
    """State that cannot be declared, saved or restored. The base class of this package's errors."""

    final = True  # a restart would meet the same declaration, value or folder


class UnsavableError(StateError):
    """A key or value that cannot be saved. `component`, `task` and `key` say where it is; `kind` is its type.

    `culprit`: the key or value.
    """

    def __init__(self, component: str, task: int, key: object, culprit: object, reason: str) -> None:
        self.component = component
        self.task = task
        self.key = key
        self.culprit = culprit
        self.kind = kind = type(culprit)
        super().__init__(
            f"component {component!r}, task {task}: the state of key {key!r:.200} cannot be saved "
            f"({kind.__module__}.{kind.__qualname__}): {reason}"
        )


class UnmarkedError(StateError):
    """A key changed and was not marked: snapshots would not contain the change."""


class DamagedError(StateError):
    """A blob or a manifest is missing, incomplete or has other bytes than were written. `name` is its name."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"{name}: {reason}")


class ForeignError(StateError):
    """A snapshot of another topology, of another version of a component's state, or of a newer aiostorm."""


class SaveError(StateError):
    """A snapshot was not saved: the store failed, is full or cannot be written. The snapshot before it still counts.

    `undecided`: it is not known whether the snapshot counts. Then the store must be opened again, and be read.
    """

    final = False  # the next snapshot may succeed

    def __init__(self, reason: str, *, undecided: bool = False) -> None:
        self.undecided = undecided
        super().__init__(reason)


class QuotaError(SaveError):
    """The snapshots would have more bytes than topology.state.quota.mb allows. The snapshot does not count."""


class OwnedError(StateError):
    """The folder contains the state of another topology, or another process has taken it over."""


class RepeatedOutputError(StateError):
    """An older snapshot than the newest is to be restored, and sinks have committed rows that would come again."""
