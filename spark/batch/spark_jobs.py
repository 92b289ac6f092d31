"""Spark jobs: the jobs of one task in Spark, under one name, by which they are cancelled. It blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..connect import is_connect
from ..sessions import activate_session
from .fetching import cancel
from .over_connect import interrupt, tag_jobs

if TYPE_CHECKING:
    from .source import OpenedSource


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """`title`: the first part of the names of chunks; `group`: the job group, or the tag over Spark Connect."""

    title: str
    group: str

    def describe(self, opened: OpenedSource, what: str) -> None:
        """Set group and description of the jobs that this thread starts."""
        activate_session(opened.session)
        if is_connect(opened.session):
            tag_jobs(opened.frame, self.group)
        else:
            opened.session.sparkContext.setJobGroup(self.group, f"{self.title}: {what}", False)

    def cancel(self, opened: OpenedSource) -> None:
        """Cancel all of them."""
        if is_connect(opened.session):
            interrupt(opened.frame, self.group)
        else:
            cancel(opened.session, self.group)
