"""Benchmarks: how much of what the machine can do is left when aiostorm is in between. `python -m benchmarks --help`.

    rows ──► harness ──► child: limit, subject, limit, subject, limit, … ──► oracle ──► ratios
               ▲  a fresh process each, rows interleaved                         │
               └──────────────── repetitions ◄───────────────────────────────────┘   ──► JSON, Markdown, plots

1. Every figure that is compared is a ratio of runs in one process, a second or less apart: a subject over the mean of
   the limits before and after it. A machine that becomes faster or slower on the way changes both sides alike.
2. Every repetition of a row has a fresh process; the rows take turns, so that a bad minute does not hit one row alone.
3. No result counts before an oracle that knows nothing of the subject has checked it.
4. A row says which guarantee is on, the style of the bolts, the size of a tree and the event loop.
5. Limits, oracles and the child need the standard library only: a peer is measured by the same child with the Python of
   an environment of its own.
6. What fails, and what cannot be installed, is reported with its reason, and stops nothing else.

Files, by what they know: `cells.py` what can be measured; `w*.py` a workload (its input, its oracle, its limits);
`adapters/` one file per subject, imported only by the child; `rows*.py` what is measured against what;
`environments.py`, `children.py`, `child.py`, `harness.py` how it is run; `findings.py`, `tables.py`, `report.py`,
`plots.py` what it comes to.
"""
