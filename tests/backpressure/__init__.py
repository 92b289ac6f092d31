"""Tests of the machines that pace spouts: no loop, no clock."""
