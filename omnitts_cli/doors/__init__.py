"""Doors: programs that speak through this package over their own protocols, on the standard streams."""
