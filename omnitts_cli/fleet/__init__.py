"""`omnitts batch`: a manifest in, files or shards out, on one device or many; runs resume by content."""
