"""Hostile bytes: mutated frames for everything that reads what comes from another process."""
