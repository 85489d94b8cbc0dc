"""Maths: networks as functions of their arguments. No slots, devices, checkpoints or family names."""
