"""Triton versions of the plain operations, for frames of few rows on CUDA."""
