"""Tests of the sandbox."""
