"""Workers are killed under load, and an independent process says what was lost: `python -m benchmarks.kills`."""
