"""Start a run's processes as the run's spec says, with a vLLM server beside them where the spec has one.

The training command calls `processes`, which uses the other modules or starts them as processes.
"""
