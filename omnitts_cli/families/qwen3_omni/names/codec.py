"""Rename table of the codec. Behind its one table it is stored like the first family's decoder."""

from __future__ import annotations

from omnitts_cli.families.qwen3_tts.names.codec import decoder_names
from omnitts_cli.models.code2wav import Code2WavShape
from omnitts_cli.models.sources import Names, One

UNUSED = ("thinker.*", "talker.*")
"""What else is in the codec's files."""

_LACKING = ("quantiser.", "opening.", "transformer.into.", "transformer.out.")


def code2wav_names(shape: Code2WavShape) -> Names:
    names = decoder_names(shape, "code2wav.")
    names = {ours: source for ours, source in names.items() if not ours.startswith(_LACKING)}
    return {"table": One("code2wav.code_embedding.weight")} | names
