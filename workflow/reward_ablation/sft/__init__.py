"""The supervised start: where the config has `sft`, the base model learns demonstrations before any run starts."""
