"""Tuning teaches a model the voice of a person from recordings. The training of `tiny` uses parts of it."""
