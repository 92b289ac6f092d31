"""The errors of submitted code."""

from __future__ import annotations

from ...runtime import AiostormError


class CodeError(AiostormError):
    """Code cannot be submitted, stored or unpacked: why, and what to do."""


class ArchiveError(CodeError):
    """A folder that cannot be packed, or an archive that cannot be unpacked: which part of it, and why."""


class BlobError(CodeError):
    """Stored code is missing, or is not what it was."""
