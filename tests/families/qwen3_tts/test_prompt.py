"""Prompts: equal to the official package's in every mode, and the same however the text arrives."""

import re
from dataclasses import replace

import golden_set
import numpy as np
import pytest
import torch
from golden_cases import CASES, asked
from golden_set import case
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import a_clone, filled, near, tiny_model
from torch import Tensor

from omnitts_cli.errors import InputError, UsageError, VoiceError
from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.modules import assemble
from omnitts_cli.models.prompts import Prompt, TooEarly
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.text.american.phonemes import phonemes
from omnitts_cli.voices import Cloned, Designed, Named


@pytest.mark.parametrize("name", CASES)
def test_golden_prompts(name: str) -> None:
    golden, model = case(name), tiny_model(name.split("/")[0])
    rows, tails = golden.tensors["prefill.inputs_embeds"], golden.tensors["prefill.trailing_text_hidden"]
    pad = golden.tensors["prefill.tts_pad_embed"][0, 0]
    for index, request in enumerate(asked(golden)):
        prompt = model.prompter.prompt(request)
        theirs = rows[index][golden.tensors["prefill.attention_mask"][index].bool()]
        assert prompt.rows.shape == theirs.shape
        assert near(prompt.rows, theirs)
        assert near(prompt.pad, pad)
        assert prompt.draft.closed
        # shorter tails of a batch are filled up with the pad row, and so is an empty one
        tail = torch.cat([prompt.feed, pad.expand(len(tails[index]) - len(prompt.feed), -1)])
        assert near(tail, tails[index])
        assert prompt.draft.spoken == len(golden.meta["assistant_ids"][index]) - 8
        codes = getattr(request.voice, "codes", None)
        assert (prompt.draft.reference is None) if codes is None else np.array_equal(prompt.draft.reference, codes)


def whole_and_live(model: SpeechModel, request: Request, pieces: list[str]) -> tuple[Prompt, Tensor]:
    """All rows of the text sent whole, and of the same text in pieces, as one run each."""
    whole = model.prompter.prompt(request)
    given = 1
    while True:
        try:
            draft, text = model.prompter.live(request, "".join(pieces[:given]))
            break
        except TooEarly:
            given += 1
            if given > len(pieces):
                raise
    assert not draft.closed
    (prompt,) = model.prompter.prompts([draft])
    later = [text.write(piece) for piece in pieces[given:]]
    return whole, torch.cat([prompt.rows, prompt.feed, *later, text.close()])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_live_rows_are_the_rows_of_the_whole_text(data: st.DataObject) -> None:
    text = data.draw(st.text(alphabet="ab 'sélLЖ你1.!?\n\u0301  ", max_size=80))
    text = f" she sells {text} and more"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for checkpoint, voice in (("custom_voice", Named("ryan")), ("base", a_clone()), ("base", a_clone(4))):
        request = Request(text, voice, text_mode="streamed")
        whole, live = whole_and_live(tiny_model(checkpoint), request, pieces)
        assert torch.equal(live, torch.cat([whole.rows, whole.feed]))


def test_live_text_with_a_reference_waits_for_enough_words() -> None:
    request = Request("", a_clone(30), text_mode="streamed")
    with pytest.raises(TooEarly, match="needs"):
        tiny_model("base").prompter.live(request, "hello world ")


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u00a0\u2003"])
def test_nothing_to_speak(text: str) -> None:
    with pytest.raises(InputError, match="no text"):
        tiny_model("custom_voice").prompter.prompt(Request(text, Named("ryan")))


def test_text_that_outgrows_the_model() -> None:
    for name, voice, clip in (("custom_voice", Named("ryan"), False), ("base", a_clone(4), True)):
        with pytest.raises(InputError, match="32768") as refused:
            tiny_model(name).prompter.draft(Request("x " * 40_000, voice))
        assert ("reference" in f"{refused.value} {refused.value.hint}") is clip


@pytest.mark.parametrize(
    ("name", "request_", "error", "says"),
    [
        ("custom_voice", Request("hi", Named("bob")), VoiceError, "serena"),
        ("custom_voice", Request("hi", Named("viviam")), VoiceError, "did you mean vivian"),
        ("custom_voice", Request("hi", Named("ryan"), "klingon"), UsageError, "english"),
        ("custom_voice", Request("hi", Named("ryan"), "germn"), UsageError, "did you mean german"),
        ("custom_voice", Request("hi", Named("eric"), "sichuan_dialect"), UsageError, "sichuan_dialect"),
        ("custom_voice_small", Request("hi", Named("ryan"), style="softly"), UsageError, "-m 1.7b"),
        ("custom_voice", Request("hi", Designed("deep")), VoiceError, "omnitts design"),
        ("voice_design", Request("hi", Named("ryan")), VoiceError, "omnitts say"),
        ("voice_design", Request("hi", Designed("deep"), style="softly"), UsageError, "description"),
        ("base", Request("hi", Named("ryan")), VoiceError, "omnitts say"),
        ("voice_design", Request("hi", Cloned(np.zeros(64, np.float32))), VoiceError, "omnitts clone"),
        ("base", Request("hi", Cloned(np.zeros(64, np.float32)), style="softly"), UsageError, "-m 1.7b"),
        ("base", Request("hi", Cloned(np.zeros(1024, np.float32))), VoiceError, "another model"),
        ("base", Request("hi", Cloned(np.full(64, np.nan, np.float32))), VoiceError, "finite"),
        ("base", Request("hi", Cloned(np.zeros(64), np.zeros((3, 8), int), "a")), VoiceError, "another model"),
        ("base", Request("hi", Cloned(np.zeros(64), np.zeros((0, 16), int), "a")), VoiceError, "another model"),
        ("base", Request("hi", Cloned(np.zeros(64), np.full((3, 16), 64), "a")), VoiceError, "0 to 63"),
        ("base", Request("hi", Cloned(np.zeros(64), np.zeros((3, 16), int))), InputError, "--ref-text"),
        ("base", Request("hi", Cloned(np.zeros(64), np.zeros((3, 16), int), " \n")), InputError, "--ref-text"),
        ("custom_voice", Request("half \udc80", Named("ryan")), InputError, "UTF-8"),
    ],
)
def test_what_a_model_cannot_do(name: str, request_: Request, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as raised:
        tiny_model(name).prompter.prompt(request_)
    assert says in f"{raised.value.message} {raised.value.hint}"


def phoneme_model(name: str) -> SpeechModel:
    """A model whose config says that it reads phonemes."""
    folder = golden_set.checkpoint(name)
    config = replace(read_config(folder), text_input="phonemes-en-us")
    return assemble(name, config, filled(folder, config), read_tokenizer(folder, config.text_vocabulary))


def test_a_model_that_reads_phonemes_gets_them() -> None:
    """The text and the transcript of a clip become phonemes, an instruction stays letters."""
    model, letters = phoneme_model("base"), tiny_model("base")
    clone = replace(a_clone(4), transcript="I read it.")
    spelled = replace(clone, transcript=phonemes("I read it."))
    for mode in ("whole", "streamed"):
        draft = model.prompter.draft(Request("Wind the clock.", clone, text_mode=mode))
        same = letters.prompter.draft(Request(phonemes("Wind the clock."), spelled, text_mode=mode))
        assert (draft.text, draft.codec, draft.feed, draft.spoken) == (same.text, same.codec, same.feed, same.spoken)
    described = phoneme_model("voice_design").prompter
    one, other = (described.draft(Request(text, Designed("a wind"))) for text in ("Wind.", "Wind it."))
    plainly = tiny_model("voice_design").prompter.draft(Request(phonemes("Wind."), Designed("a wind")))
    assert one.text == plainly.text != other.text
    with pytest.raises(InputError, match="no text"):
        model.prompter.draft(Request("- -", clone))


def test_arriving_words_become_phonemes_too() -> None:
    model = phoneme_model("base")
    text = "The apple fell, and I saw it."
    request = Request(text, a_clone(4), text_mode="streamed")
    whole, live = whole_and_live(model, request, re.findall(r"\S+ ?", text))
    assert torch.equal(live, torch.cat([whole.rows, whole.feed]))
