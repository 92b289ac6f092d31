"""Problems: the promises that were broken in a world."""

from __future__ import annotations

from .errors import InvariantError


class Problems(list[str]):
    """Their texts, in order. Those that `check` has raised count as reported."""

    def __init__(self) -> None:
        super().__init__()
        self._reported = 0

    def check(self) -> None:
        """InvariantError with every broken promise so far, if there is one."""
        __tracebackhide__ = True  # pytest shows the test's line
        if self:
            self._reported = len(self)
            raise InvariantError(self)

    @property
    def unreported(self) -> list[str]:
        """Those that the test does not know."""
        return self[self._reported :]
