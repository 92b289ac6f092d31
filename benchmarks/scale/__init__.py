"""What a cluster of many nodes asks of its store: operations and bytes, counted. See __main__.py."""
