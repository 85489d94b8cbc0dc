"""Families of published models: config, tensor names, prompts, voices."""
