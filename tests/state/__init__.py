"""Tests of state: what is saved, how it is packed, and what can be loaded after a crash."""
