"""Benchmarks: loads of requests, times as a client sees them, and reports. This package needs no torch."""
