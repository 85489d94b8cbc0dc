"""What families share: config fields, tokenizer, prompts, parts of a model and their stored names."""
