"""The batched engine: slots, admission, captured steps, codec jobs. Nothing here depends on a model family."""
