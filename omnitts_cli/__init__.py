"""Plain words of speech synthesis on the command line; heavy parts are imported late."""
