"""Spanish, French, Italian and Brazilian Portuguese -> phonemes, by tables of letters in their contexts."""
