"""Custom: a user's own grouping, whose results are checked. Storm: CustomStreamGrouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EmitError
from ..tuples.columns import is_batch
from ..tuples.identity import part_of
from .base import Grouping, GroupingContext
from .shares import Share, share_out

if TYPE_CHECKING:
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Anchor, RecordBatch


class CustomGrouping(Grouping):
    """A user's grouping, whose results are checked: every target must be a task of the consumer."""

    def __init__(self, inner: Grouping) -> None:
        self._inner = inner

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Prepare the user's grouping."""
        super().prepare(context, stream, targets)
        self._allowed = frozenset(targets)
        self._splits_itself = type(self._inner).split is not Grouping.split
        self._splits_columns = type(self._inner).split_columns is not Grouping.split_columns
        self._inner.prepare(context, stream, self.targets)

    def choose(self, values: Row) -> Sequence[int]:
        """The targets that the user's grouping chooses; EmitError if one is not a task of the consumer."""
        return self._checked(self._inner.choose(values), None)

    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        """The targets that the user's grouping chooses for each row."""
        chosen = self._inner.choose_batch(rows)
        if len(chosen) != len(rows):
            raise EmitError(f"{self._name()}: choose_batch returned {len(chosen)} results for {len(rows)} rows")
        return [self._checked(targets, i) for i, targets in enumerate(chosen)]

    def split(self, rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
        """The shares that the user's grouping makes."""
        if not self._splits_itself:
            return share_out(self.choose_batch(rows), rows, anchors)
        # An empty share would be a segment that is never done.
        shares = [share for share in self._inner.split(rows, anchors) if share[1]]
        self._check_targets([share[0] for share in shares], "split")
        for _, given, given_anchors in shares:
            if (given_anchors is None) != (anchors is None) or (
                given_anchors is not None and len(given) != len(given_anchors)
            ):
                raise EmitError(
                    f"{self._name()}: split must return one anchor for each row, or None if it was called with None"
                )
        return shares

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """The batches that the user's grouping makes; if it has no code for columns, its rows are split."""
        if not self._splits_columns:
            return super().split_columns(batch)
        given = self._inner.split_columns(batch)
        for _, part in given:
            if not is_batch(part):
                raise EmitError(f"{self._name()}: split_columns must return RecordBatches, not {type(part).__name__}")
        shares = [share for share in given if share[1].num_rows]
        self._check_targets([target for target, _ in shares], "split_columns")
        if len(shares) == 1 and shares[0][1] is batch:
            return shares
        # The user's slices have the identity of the whole batch: make them different parts of it.
        return [(target, part_of(part, at, len(shares))) for at, (target, part) in enumerate(shares)]

    def _check_targets(self, targets: Sequence[int], method: str) -> None:
        chosen = self._checked(targets, None)
        if len(set(chosen)) < len(chosen):
            raise EmitError(f"{self._name()}: {method} must return one share for each task, not several")

    def _checked(self, targets: Sequence[int], row: int | None) -> Sequence[int]:
        if not isinstance(targets, list | tuple):
            error = EmitError(f"{self._name()}: choose must return a list or tuple of task ids, not {targets!r}")
        else:
            for target in targets:
                if target not in self._allowed:
                    error = EmitError(
                        f"{self._name()}: chose task {target!r}; the tasks of {self.context.consumer!r} are "
                        f"{', '.join(map(str, self.targets))}"
                    )
                    break
            else:
                return targets
        error.row = row
        raise error

    def _name(self) -> str:
        return (
            f"grouping {type(self._inner).__name__} of {self.context.consumer!r} on stream "
            f"{self.stream.stream!r} of {self.stream.component!r}"
        )
