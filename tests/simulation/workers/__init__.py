"""The world of workers: a random topology on several processes, under faults."""
