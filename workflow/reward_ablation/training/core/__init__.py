"""The code that decides the numbers of a run, and nothing else. A change here trains runs again.

`training.around` calls it, above all `build`, and is not imported here.
"""
