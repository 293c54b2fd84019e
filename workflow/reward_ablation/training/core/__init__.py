"""The code that decides the numbers of a run, and nothing else. A change here trains runs again."""
