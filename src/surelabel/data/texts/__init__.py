"""Texts in files, tables and lists."""
