"""What a published checkpoint means: config, names, prompt, voices."""
