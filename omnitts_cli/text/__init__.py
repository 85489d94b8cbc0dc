"""Text: splitting, input formats, language, subtitles. No model words."""
