"""Tables in .csv and .parquet files."""
