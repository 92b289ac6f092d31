"""Tests of the acker room."""
