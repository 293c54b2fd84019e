"""Requests to endpoints: sending, retries, stored answers and counts. Nothing here decides a score."""
