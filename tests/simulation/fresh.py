"""Fresh seeds: each commit has a range of its own, so that the gate looks where it has never looked before.

    commit's hash, or a digest of the tree ── first_of ─► first ─► first, first + 1, …

1. The range depends on the text only: the same commit has the same seeds in every run and on every machine.
2. No range reaches down to the fixed seeds, which every run of the gate has.
3. A tree without git (an unpacked archive) is named by a digest of its Python files.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOWEST = 1_000_000
"""No fresh seed is below this; no fixed one should be above."""

SPAN = 1_000_000_000
"""Ranges of two commits hardly ever meet in so many."""


def first_of(name: str) -> int:
    """The first fresh seed of a commit, or of anything else that has a name."""
    return LOWEST + int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % SPAN


def name_of(tree: Path = ROOT) -> str:
    """What is checked out in a folder: a commit's hash; where the folder is no checkout, a digest of what is in it."""
    return _commit_of(tree) or _digest_of(tree)


def _commit_of(tree: Path) -> str | None:
    ask = ["git", "-C", str(tree), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        answer = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):  # no git here, no checkout, no commit yet
        return None
    top, commit = answer
    return commit if Path(top).resolve() == tree.resolve() else None  # the archive may lie in another's checkout


def _digest_of(tree: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path.relative_to(tree) for path in tree.rglob("*.py")):
        if not any(part.startswith(".") for part in path.parts):
            digest.update(f"{path.as_posix()}\n".encode())
            digest.update((tree / path).read_bytes())
    return digest.hexdigest()
