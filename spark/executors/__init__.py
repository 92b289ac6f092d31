"""Connections between Spark's executors and one task of a topology, for all that they send and receive.

    an executor: ServerClient, ChunkWriter, ChunkReader ═══ messages ═══ DataServer, ClientConnection: a spout or bolt

client.py is the executor's end, blocking; server.py is the task's end; messages.py (pure) is what they send, after the
handshake of the transport. location.py says where the tasks are, found by endpoints.py. by_value.py ships the client
to executors where aiostorm is not installed.
"""

from __future__ import annotations

__all__: list[str] = []  # its users are other packages of spark
