"""Tuning: teaches a model the voice of a person from recordings; and what the training of `tiny` shares with it."""
