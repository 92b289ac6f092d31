"""Tests of the control socket."""
