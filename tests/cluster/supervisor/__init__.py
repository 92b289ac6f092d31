"""Tests of cluster.supervisor."""
