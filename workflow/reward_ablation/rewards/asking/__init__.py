"""Requests to endpoints: sent, retried, kept and counted. Nothing here decides a score."""
