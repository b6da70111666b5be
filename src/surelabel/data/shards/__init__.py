"""Tar shards, for data sets larger than memory."""
