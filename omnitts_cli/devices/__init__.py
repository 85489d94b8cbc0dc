"""Devices: the only package with code for particular accelerators."""
