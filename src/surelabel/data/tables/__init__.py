"""Rows of .csv and .parquet files."""
