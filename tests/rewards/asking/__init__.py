"""Tests of requests to endpoints."""
