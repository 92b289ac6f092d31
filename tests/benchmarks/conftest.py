"""The benchmarks are no package that is installed: they are found in the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # at the end: what is installed goes first
