"""The errors of those who ask nimbus."""

from __future__ import annotations

from ...runtime import AiostormError


class DeniedError(AiostormError):
    """The token is not valid, or its role does not allow this."""


class RequestError(AiostormError):
    """Nimbus does not understand a request, or a client not the response: their versions differ."""
