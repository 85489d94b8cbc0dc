"""Normalising: whether numbers and signs are spelled out before the model gets the text.

Models that read plain letters only get spelled-out text, unless --no-normalize is given. Other models read digits and
signs themselves, and get the text unchanged unless --normalize is given.
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
    """A model, or the known properties of one that is not loaded."""

    @property
    def plain_letters(self) -> bool:
        """Whether it reads English letters only."""
        ...


def transcript(words: str, model: SpeechModel) -> str:
    """The transcript of a clip, normalised as the text is: the model gets both in one prompt."""
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
    """The normaliser for this model; None: text stays as it is. `language`: a code, or None if it is unknown.

    With `parts`, texts may be parts of sentences.
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
    """The reader of wetext for a language; raises UsageError without wetext."""
    try:
        from wetext import Normalizer
    except ImportError:
        raise UsageError(
            f"--normalize for '{language}' needs wetext, which is not installed",
            hint="pip install wetext",
        ) from None
    rules: Any = Normalizer(lang=language, operator="tn")
    return lambda text: str(rules.normalize(text))
