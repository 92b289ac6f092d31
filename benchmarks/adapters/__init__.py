"""Adapters: how a subject does a workload. One file per subject and workload; only the child imports them."""
