"""Speech: text in, sound out. What the command line, the bench and a server have in common; it prints nothing."""
