"""The code that decides a judge's scores: it makes the prompt and reads the judge's answer."""
