"""Mutated frames from the command line; ends with 1 if one raised anything but ProtocolError.

python -m tests.fuzz --frames 1000000
"""

from __future__ import annotations

import gc
import os
import sys
import time

import click

from .campaign import TARGETS, Findings, campaign


def resident_mib() -> float:
    """Memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@click.command(help=__doc__)
@click.option("--frames", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="How many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the generator.")
def main(frames: int, seed: int) -> None:
    campaign(min(frames, 20_000), seed + 1)  # what is loaded and remembered once is no growth
    gc.collect()
    before, peak = resident_mib(), 0.0

    def progress(findings: Findings) -> None:
        nonlocal peak
        peak = max(peak, resident_mib())

    begin = time.perf_counter()
    found = campaign(frames, seed, progress)
    took = time.perf_counter() - begin
    gc.collect()
    after = resident_mib()
    print(f"{found.frames:,} frames in {took:.1f} s: {found.frames / took:,.0f} a second (seed {seed})")
    for name in TARGETS:
        seen = {what: found.outcomes[name, what] for what in ("read", "refused", "WRONG")}
        print(f"  {name:18} " + ", ".join(f"{count:,} {what}" for what, count in seen.items()))
    print(f"memory: {before:.1f} MiB before, {max(peak, after):.1f} at most, {after:.1f} after")
    print(f"slowest: {found.slowest_s * 1000:.1f} ms, {found.slowest[:120]}")
    for example in found.wrong:
        print(f"\n{example}")
    sys.exit(1 if found.wrong else 0)


if __name__ == "__main__":
    main()
