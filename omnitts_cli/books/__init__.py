"""Books, plays and word times: documents with chapters, casts of voices, and when each word is spoken."""
