"""Tests of sinks that commit with snapshots."""
