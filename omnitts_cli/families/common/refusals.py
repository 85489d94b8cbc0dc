"""Errors for what a model cannot speak: kinds of voices, names, languages, instructions."""

import difflib
from collections.abc import Iterable

from omnitts_cli.errors import StyleError, UsageError, VoiceError

WHO_SPEAKS = {
    "named": "omnitts say -m 0.6b   or   -m 1.7b",
    "cloned": "omnitts clone -m 0.6b   or   -m 1.7b",
    "designed": "omnitts design -m 1.7b",
}


def wrong_kind(kind: str, kinds: Iterable[str]) -> VoiceError:
    """The model speaks with other kinds of voices only."""
    able = " and ".join(sorted(kinds))
    return VoiceError(f"this model supports {able} voices, not {kind} ones", hint=WHO_SPEAKS[kind])


def unknown_voice(name: str, known: Iterable[str], elsewhere: str | None = None) -> VoiceError:
    """The model has no voice of this name; `elsewhere` says which model has."""
    names = ", ".join(known)
    hint = elsewhere or nearest(name, known) or (f"its voices are {names}" if names else "it has no named voices")
    return VoiceError(f"this model has no voice called {name!a}", hint=hint)


def unknown_language(name: str, known: Iterable[str], elsewhere: str | None = None) -> UsageError:
    """The model does not speak the language; `elsewhere` says which model does."""
    hint = elsewhere or nearest(name, known) or f"it speaks {', '.join(known)}"
    return UsageError(f"this model does not support {name!a}", hint=hint)


def no_instructions() -> StyleError:
    """The model cannot follow a style."""
    return StyleError("this model cannot follow a style", hint="-m 1.7b   with a named voice")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the most similar known word, if there is one."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None
