"""The study's own metrics: stored answers in, a score a metric out; nothing is generated."""
