"""Specs: what decides a result, resolved and typed, as one canonical JSON text with a key. Below all stages.

Planning (`study`) writes specs into the commands of jobs. A job takes from its spec all settings that decide its
result.
"""
