"""Restart policy: the decision about an actor's failure, as a pure machine.

    failure -> directive: RESUME   continue with the same state; the message is lost
                          RESTART  after a backoff, with a new instance; the mailbox stays
                          STOP     end the actor
                          ESCALATE the parent fails with the same error

1. More than `max_restarts` restarts within `within_s` seconds escalate: an endless restart would hide a defect
   (Erlang's restart intensity).
2. The backoff grows with the number of restarts in that time, so an actor that ran well for a while starts again with
   the shortest wait.
3. An error that is marked as final (AiostormError.final) escalates at once: a restart would not help.
4. An actor that failed before it had started has no state to resume: RESUME becomes RESTART then, and counts as one.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


class Directive(enum.Enum):
    """What to do about a failure."""

    RESUME = "resume"
    RESTART = "restart"
    STOP = "stop"
    ESCALATE = "escalate"


def restart(error: BaseException) -> Directive:
    """Restart the actor, unless the error is final."""
    return Directive.ESCALATE if getattr(error, "final", False) is True else Directive.RESTART


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often an actor may fail, and how long to wait before it is restarted.

    `backoff_s[i]` is the wait before restart i within `within_s`; the last one repeats. `decide` maps an error to a
    directive.
    """

    max_restarts: int = 5
    within_s: float = 30.0
    backoff_s: tuple[float, ...] = (0.0, 0.2, 1.0, 5.0)
    decide: Callable[[BaseException], Directive] = field(default=restart)

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or self.within_s <= 0 or not self.backoff_s or min(self.backoff_s) < 0:
            raise ValueError(f"max_restarts >= 0, within_s > 0 and non-negative waits in backoff_s are needed: {self}")


STOP_ON_FAILURE = RestartPolicy(decide=lambda error: Directive.STOP)
RESUME_ON_FAILURE = RestartPolicy(decide=lambda error: Directive.RESUME)
ESCALATE_ON_FAILURE = RestartPolicy(decide=lambda error: Directive.ESCALATE)


@dataclass(frozen=True, slots=True)
class Decision:
    """A directive; for RESTART also the wait before it, and the number of restarts within the policy's time."""

    directive: Directive
    delay_s: float = 0.0
    restarts: int = 0


class FailureHistory:
    """The failures of one actor within its policy's `within_s`."""

    __slots__ = ("_restarts", "policy")

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._restarts: deque[float] = deque()

    def failed(self, error: BaseException, now_s: float, *, resumable: bool = True) -> Decision:
        """Decide about a failure at `now_s` (monotonic seconds). Raises what the policy's `decide` raises."""
        directive = self.policy.decide(error)
        if directive is Directive.RESUME and not resumable:
            directive = Directive.RESTART
        if directive is not Directive.RESTART:
            return Decision(directive)
        while self._restarts and self._restarts[0] <= now_s - self.policy.within_s:
            self._restarts.popleft()
        if len(self._restarts) >= self.policy.max_restarts:
            return Decision(Directive.ESCALATE, restarts=len(self._restarts))
        delay_s = self.policy.backoff_s[min(len(self._restarts), len(self.policy.backoff_s) - 1)]
        self._restarts.append(now_s)
        return Decision(Directive.RESTART, delay_s, len(self._restarts))
