"""The world of pressure: a topology that cannot keep up, in one process, under faults."""
