"""What decides a judge's scores: the prompt, and how the judge's answer is read."""
