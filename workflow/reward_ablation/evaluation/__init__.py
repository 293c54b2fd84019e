"""How a model is judged: generate answers, grade them, one row per question and sample."""
