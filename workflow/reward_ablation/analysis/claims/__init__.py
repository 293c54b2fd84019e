"""Claims on arms, judged by intervals and tests."""
