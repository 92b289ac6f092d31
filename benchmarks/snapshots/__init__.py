"""What exactly once costs: word count, many keys, pauses of the event loop, recovery, another parallelism."""
