"""Tests of joins by window."""
