"""The summary: a study in one page of words and numbers."""
