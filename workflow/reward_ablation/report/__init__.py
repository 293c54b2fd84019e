"""The report of a study: summary, main table, costs, first page, pages on the study itself, and the report's policy."""
