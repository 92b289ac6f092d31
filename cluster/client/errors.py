"""The errors of the client of a cluster."""

from __future__ import annotations

from ...runtime import AiostormError


class ClusterError(AiostormError):
    """The cluster cannot do what is asked: why, and what to do."""


class NoClusterError(ClusterError):
    """There is no cluster: none was started here, or its store cannot be reached."""


class NotRunningError(ClusterError):
    """A topology was submitted, and does not run: why, as far as that is known."""


class CheckError(ClusterError):
    """The target is no topology that can be submitted. `problems`: each one."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
