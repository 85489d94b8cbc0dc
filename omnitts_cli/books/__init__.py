"""Books, plays and word times: documents with chapters, voices for characters, and the time of each word."""
