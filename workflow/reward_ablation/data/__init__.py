"""Data sets from any source, as problems of one Parquet schema with checked golds.

The rules `prepare_evaluation`, `prepare_train` and `prepare_sft` run it; later stages read the sets by `prepared`.
"""
