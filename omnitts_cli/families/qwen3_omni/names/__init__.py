"""Rename tables: from our parameters to the tensors of the published checkpoint. The only home of upstream names."""
