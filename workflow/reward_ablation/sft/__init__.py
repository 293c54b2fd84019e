"""The supervised start: the base model learns demonstrations before any run starts.

The rule `sft` runs it once for a study, where the config has `sft`. All runs then start from the model that it makes.
"""
