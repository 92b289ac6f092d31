"""Errors of the Spark package: what is missing, what the user must correct, what was lost."""

from __future__ import annotations

from ..runtime import AiostormError


class SparkUnavailableError(AiostormError):
    """Spark cannot be used: PySpark, Java or a required package is missing or too old. Says how to get it."""

    final = True


class SparkSourceError(AiostormError):
    """The source cannot be read as it is: the user must correct it, a restart would not help."""

    final = True


class SparkLostError(AiostormError):
    """The session has ended, or its JVM has died: a new session can continue where it stopped."""


class SinkError(AiostormError):
    """Rows cannot be written as they are, or to this place: says what to change."""

    temporary = False
    """Whether the same write may work later: the store cannot be written now."""


class OutputExistsError(SinkError):
    """The output holds the data of an earlier run: says what to change. The topology fails."""

    final = True


class SparkWorkersError(AiostormError):
    """Workers cannot run on this Spark with its settings: says what to change."""


class SparkJobError(AiostormError):
    """A Spark job failed; it is retried a few times."""
