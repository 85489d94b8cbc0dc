"""Ours: the one object that our own folders may add to config.json. The official package passes over it.

Every key may be left out:

    "omnitts": {
        "kinds": ["named", "cloned", "designed"],   voices that this one folder can speak
        "languages": ["english"],                   those of codec_language_id that it was trained for
        "voices": {"ann": "a calm, low voice"},     one line about a speaker
        "style": true,                              whether named voices obey an instruction
        "longest_piece": 110,                       letters of a text that it says well in one go
        "plain_letters": true                       whether it reads English letters and ,.!?'- only, so that numbers
                                                    and signs must be words before it hears them
    }
"""

from __future__ import annotations

from omnitts_cli.families.common.fields import Fields

KEY = "omnitts"
PIECE = 10_000  # letters; far more than any slot holds


def ours_in(top: Fields) -> Fields:
    """The object, of a config.json; empty where it is not."""
    return top.part(KEY) if top.has(KEY) else Fields(top.file, {}, KEY)


def plain_letters(ours: Fields) -> bool:
    return ours.flag("plain_letters", False)


def longest_piece(ours: Fields) -> int | None:
    """None: as much as the splitter gives."""
    return ours.whole("longest_piece", PIECE, 20) if ours.has("longest_piece") else None
