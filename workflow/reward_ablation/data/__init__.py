"""Data sets from any source, as problems of one Parquet schema with checked golds."""
