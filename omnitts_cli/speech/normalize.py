"""Reading: who gets the text as it is, and who gets words for numbers and signs.

What a model of plain letters gets is turned into those, unless --no-normalize says otherwise. The others read
digits and signs by themselves, and get the text as it is unless --normalize asks for words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from omnitts_cli.errors import Notice, UsageError

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel
    from omnitts_cli.text.reading import Read

EXTRA = ("zh", "ja")  # languages that wetext knows


class Reads(Protocol):
    """A model, or what is known of one that is not loaded."""

    @property
    def plain_letters(self) -> bool: ...


def transcript(words: str, model: SpeechModel) -> str:
    """The words of a clip as this model reads texts: it hears both as one."""
    read = reader(None, None, model)
    return read(words) if read else words


def reader(
    wanted: bool | None,
    language: str | None,
    model: Reads,
    *,
    parts: bool = False,
    tell: Callable[[Notice], None] = lambda notice: None,
) -> Read | None:
    """How texts are read to this model; None: as they are. `language`: a code, or None where nobody knows.

    With `parts` they are no whole sentences.
    """
    if wanted is False or not (wanted or model.plain_letters):
        return None
    if model.plain_letters:
        from omnitts_cli.text.spell_out import plain_letters, plain_part

        return plain_part if parts else plain_letters
    if language is None:
        what = "--normalize: cannot detect the language of the text; reading numbers in English (set it with -l)"
        tell(Notice(what, plain=True))
    return normaliser(language or "en")


def normaliser(language: str) -> Read:
    """Numbers, dates, units and signs as words of that language."""
    if language == "en":
        from omnitts_cli.text.spell_out import spell_out

        return spell_out
    if language not in EXTRA:
        raise UsageError(f"--normalize does not support '{language}'", hint=f"supported: en, {', '.join(EXTRA)}")
    return of_wetext(language)


def of_wetext(language: str) -> Read:
    try:
        from wetext import Normalizer
    except ImportError:
        raise UsageError(
            f"--normalize for '{language}' needs wetext, which is not installed",
            hint="pip install wetext",
        ) from None
    rules: Any = Normalizer(lang=language, operator="tn")
    return lambda text: str(rules.normalize(text))
