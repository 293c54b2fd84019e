"""A study in one page of words and numbers."""
