"""A corpus on one card: manifest in, files or shards out, resumed by content. `omnitts batch` is its command."""
