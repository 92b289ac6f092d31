"""Errors of the Spark room: what is missing, what the user must mend, what was lost."""

from __future__ import annotations

from ..runtime import AiostormError


class SparkUnavailableError(AiostormError):
    """Spark cannot be used here: PySpark, Java or a package it needs is missing, or too old. Says how to get it."""

    final = True


class SparkSourceError(AiostormError):
    """What comes from Spark cannot be taken as it is: the user must mend it, a restart would not help."""

    final = True


class SparkLostError(AiostormError):
    """The session has ended, or its JVM has died: a new one can go on where it stopped."""


class SinkError(AiostormError):
    """What comes cannot be written as it is, or where it should be: says what to change."""


class OutputExistsError(SinkError):
    """There is an earlier run's data where this one is to be written: says what to change. The topology fails."""

    final = True


class SparkWorkersError(AiostormError):
    """Workers cannot be placed on this Spark as it is set: says what to change."""


class SparkJobError(AiostormError):
    """A job of Spark's failed; it is tried again some times."""
