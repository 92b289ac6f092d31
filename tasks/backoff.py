"""Backoff: when `next_tuple` of a spout has raised, the task waits and calls it again, or gives up, by the restart
policy.

The same instance is called again: a new instance would read its source from the start.
"""

from __future__ import annotations

from ..actors import ActorEscalatedError, Directive, FailureHistory, RestartPolicy
from ..runtime import Clock
from ..topology import Config


class Backoff:
    """The backoff of one spout task, called `name`."""

    __slots__ = ("_clock", "_history", "_name")

    def __init__(self, name: str, config: Config, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        policy = RestartPolicy(config.restart_max, config.restart_period_s, tuple(config.restart_backoff_s))
        self._history = FailureHistory(policy)

    async def wait(self, error: Exception, *, can_go_on: bool) -> None:
        """Wait until the spout may be called again. ActorEscalatedError if it may not."""
        decision = self._history.failed(error, self._clock.monotonic())
        if not can_go_on or decision.directive is Directive.ESCALATE:
            raise ActorEscalatedError(f"{self._name} failed in next_tuple and was given up: {error!r}") from error
        await self._clock.sleep(decision.delay_s)
