"""Tests of the command line: targets, runs, signals, progress, reports."""
