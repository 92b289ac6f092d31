"""The world of windows: bolts with windows on several processes, under faults."""
