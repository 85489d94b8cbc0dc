"""Bench: loads of requests, the client's clock, and what is said about them. A room that needs no torch."""
