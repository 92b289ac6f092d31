"""Small worlds for tests: some processes, a coroutine that watches them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiostorm.testing.simulation import World, world_loop

T = TypeVar("T")


def in_world(work: Callable[[World], Coroutine[Any, Any, T]], seed: int = 0, **options: Any) -> T:
    """Run a test in a world of its own, as the one process that no fault touches."""
    loop = world_loop(seed, **options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(work(loop.world))
    assert not loop.world.problems, "\n".join(loop.world.problems)
    return result


def printed(program: str, hash_seed: int = 4242) -> str:
    """What a Python program prints in a process of its own, under another PYTHONHASHSEED."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ran.stdout
