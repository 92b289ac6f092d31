"""Tests of the parent of workers."""
