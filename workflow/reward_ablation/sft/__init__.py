"""The supervised start: the base model learns demonstrations before any run starts."""
