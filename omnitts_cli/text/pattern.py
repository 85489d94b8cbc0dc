"""Regular expressions that are compiled when they are first used: a range such as all of Chinese takes milliseconds."""

import re
from functools import cached_property
from typing import Any


class LatePattern:
    """A pattern with the methods of `re.Pattern`."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself."""
        return re.compile(self.pattern)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.compiled, name)
        setattr(self, name, method)  # found directly from now on
        return method


class WidePattern:
    """A pattern that matches no ASCII text, so that only other text compiles it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.late = LatePattern(pattern)

    def match(self, text: str, *span: int) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return None if text.isascii() else self.late.match(text, *span)

    def search(self, text: str, *span: int) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return None if text.isascii() else self.late.search(text, *span)

    def findall(self, text: str, *span: int) -> list[str]:
        """As `re.Pattern.findall`."""
        return [] if text.isascii() else self.late.findall(text, *span)

    def sub(self, new: str, text: str) -> str:
        """As `re.Pattern.sub`."""
        return text if text.isascii() else self.late.sub(new, text)
