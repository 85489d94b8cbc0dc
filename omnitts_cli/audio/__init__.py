"""Sound: chunks, sample formats, files and the places sound goes. No torch, no model words."""
