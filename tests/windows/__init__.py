"""Tests of the machines of windows: no loop, no clock; every stream is held against a plain, slow reference."""
