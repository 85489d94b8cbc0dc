"""Rename tables: from our parameters to the tensors of the published checkpoints. The only home of upstream names."""
