"""Terminal: what the person at the terminal sees and presses, and the signals that reach the process."""
