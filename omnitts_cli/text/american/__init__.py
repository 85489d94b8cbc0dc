"""American English words -> phonemes, for models whose tokenizer was learned from phonemes."""
