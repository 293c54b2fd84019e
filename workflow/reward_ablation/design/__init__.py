"""What to run next, and what it would show: pure functions of tables and stated values."""
