"""The summary of a study in words and numbers, the main table for a paper, and the first page of the report."""
