"""Run every example as its reader would, each in a process of its own with a bound. Run it from the root.

A file with an `if __name__ == "__main__":` block is a program: `python -m examples.NAME`. One that has a `topology` is
given to `aiostorm run`. A file whose name begins with `_` is shared by examples, and is not one.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 60.0


def command_for(file: Path) -> list[str] | None:
    """How a reader starts it; None if there is no way."""
    name = f"examples.{file.stem}"
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return [sys.executable, "-m", name]
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="topology")]) | ast.AnnAssign(target=ast.Name(id="topology")):
                return [sys.executable, "-m", "aiostorm", "run", f"{name}:topology"]
            case ast.FunctionDef(name="topology"):
                return [sys.executable, "-m", "aiostorm", "run", f"{name}:topology"]
    return None


def run(file: Path) -> bool:
    """Did it exit with 0 in time? What it printed is shown where it did not."""
    command = command_for(file)
    if command is None:
        print(f"{file}: no `__main__` block and no `topology`: how does a reader run it?")
        return False
    begun_s = time.monotonic()
    bounded = [sys.executable, str(Path(__file__).with_name("bounded.py")), str(LIMIT_S)]
    done = subprocess.run([*bounded, *command], capture_output=True, text=True, check=False)
    took_s = time.monotonic() - begun_s
    print(f"{file}: {took_s:.1f} s, exit code {done.returncode} ({' '.join(command[1:])})", flush=True)
    if done.returncode:
        print(done.stdout + done.stderr)
    return done.returncode == 0


def main() -> int:
    """All of them, also after a failure."""
    files = [file for file in sorted(Path("examples").glob("*.py")) if not file.name.startswith("_")]
    if not files:
        print("there are no examples")
        return 1
    ran = [run(file) for file in files]
    print(f"{sum(ran)} of {len(ran)} examples ran")
    return 0 if all(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
