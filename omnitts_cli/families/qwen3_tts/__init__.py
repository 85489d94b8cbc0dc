"""Qwen3-TTS, 12 Hz: config, names, text, prompt, voices."""
