"""Tests of the benchmarks: that what they say of a run is what was measured."""
