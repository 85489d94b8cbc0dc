"""Qwen3-Omni's talker: three voices that read any text, without the model that thinks."""
