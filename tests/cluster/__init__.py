"""The local cluster and its running topologies, from outside."""
