"""Exactly once on workers."""
