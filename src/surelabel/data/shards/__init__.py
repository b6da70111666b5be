"""Tar shards, for sets larger than the memory."""
