"""Settings: the table of all settings, and the places where their values come from."""
