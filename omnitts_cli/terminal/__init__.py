"""Terminal: output, keys, progress and signals."""
