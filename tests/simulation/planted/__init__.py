"""Planted bugs: code of the system is replaced for a while, and the simulation must find it."""
