"""Scenarios from the test suites of Storm and JStorm, written again for this project.

1. Each test is a black box: it imports `aiostorm` and `aiostorm.testing`, and runs in virtual time.
2. Each names its scenario and where it is from, and says in what we depart: `@scenario(…)`. What is promised is in
   docs/semantics.md; where theirs and that page disagree, the page holds.
3. The code is ours: their tests were read, not translated.
4. docs/conformance.md is the table of them all. `python -m tests.conformance` writes it anew.
"""
