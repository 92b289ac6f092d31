"""Mutation tests of a module: `python -m tests.mutation acker/ledger.py`."""
