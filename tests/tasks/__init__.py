"""Spouts, bolts and collectors, from outside: a topology in virtual time, and what a user sees of it."""
