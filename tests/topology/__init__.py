"""Tests of the package topology."""
