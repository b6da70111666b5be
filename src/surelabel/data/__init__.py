"""Data: sources, splits, views."""
