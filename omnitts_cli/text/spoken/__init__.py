"""What is written in figures and signs, and how it is read aloud in English: one file for each kind."""
