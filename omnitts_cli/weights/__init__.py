"""Disk: finding checkpoints and filling modules from them."""
