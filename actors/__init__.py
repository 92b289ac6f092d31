"""The kernel: actors with bounded mailboxes. It knows no Storm noun."""

from .errors import ActorEscalatedError, AiostormError, AskFailedError, AskTimeoutError, MailboxClosedError

__all__ = ["ActorEscalatedError", "AiostormError", "AskFailedError", "AskTimeoutError", "MailboxClosedError"]
