"""The world of state: exactly once, whatever is killed, in one process and on several workers."""
