"""Specs: what decides a result, resolved and typed, as one canonical JSON text with a key. Below all stages."""
