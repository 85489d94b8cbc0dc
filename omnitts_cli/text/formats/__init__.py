"""Documents that are more than plain text: each becomes blocks of words and pauses."""
