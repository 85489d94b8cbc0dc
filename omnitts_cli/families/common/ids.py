"""Token ids that the prompt templates place by number, and the limits of vocabularies."""

from __future__ import annotations

from dataclasses import dataclass

from omnitts_cli.families.common.fields import Fields

GROUPS, CODES, TOKENS, POSITIONS = 64, 2**16, 2**21, 2**20


@dataclass(frozen=True)
class TextIds:
    """Tokens that the template places by number."""

    start: int  # of a turn
    stop: int
    assistant: int
    pad: int
    begin: int
    end: int


def text_ids(top: Fields, vocabulary: int) -> TextIds:
    """The ids that config.json names."""

    def token(key: str) -> int:
        return top.whole(f"{key}_token_id", vocabulary - 1, 0)

    return TextIds(
        start=token("im_start"),
        stop=token("im_end"),
        assistant=token("assistant"),
        pad=token("tts_pad"),
        begin=token("tts_bos"),
        end=token("tts_eos"),
    )


def same_tokens(tokenizer: Fields, text: TextIds) -> None:
    """Raise ModelError where the tokenizer has another word at one of the ids of config.json."""
    if not tokenizer.has("added_tokens_decoder"):
        return
    added = tokenizer.part("added_tokens_decoder")
    for word, id in {
        "<|im_start|>": text.start,
        "<|im_end|>": text.stop,
        "<tts_pad>": text.pad,
        "<tts_text_bos>": text.begin,
        "<tts_text_eod>": text.end,
    }.items():
        entry = added.part(str(id)) if added.has(str(id)) else None
        if entry is not None and entry.text("content") != word:
            raise added.problem(str(id), f"{entry.text('content')!a} is not {word}, which config.json has at {id}")
