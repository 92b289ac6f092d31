"""Tests of the groupings."""
