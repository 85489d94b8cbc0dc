"""Replies that are spoken while they are written: events, whole answers, conversations, threads, and early ends."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from golden_set import thinker_case, thinker_folder
from omni_recipe import clip

import omnitts_cli as omnitts
from omnitts_cli.errors import ModelError, UsageError, VoiceError
from omnitts_cli.request import Sampling

GOLDEN = thinker_case("text").meta
SYSTEM, QUESTION = (parts[0] for _, parts in GOLDEN["turns"])
GREEDY = {"speech_sampling": Sampling(temperature=0.0, predictor_temperature=0.0)}
LONGEST_S = 1.8  # random weights speak to the limit; the official answer is shorter
ASKED = {"system": SYSTEM, "max_tokens": 14, "voice": "ethan", **GREEDY}


@pytest.fixture(scope="module")
def assistant() -> Iterator[omnitts.Assistant]:
    options = {"device": "cpu", "threads": 1, "context": 512, "slots": 3, "seconds": LONGEST_S}
    with omnitts.load_assistant(thinker_folder(), sound=True, speech=True, **options) as opened:
        yield opened


def test_text_and_sound_come_as_they_are_made(assistant: omnitts.Assistant) -> None:
    reply = assistant.speak(QUESTION, **ASKED)
    events = list(reply)
    assert "".join(event.text for event in events) == GOLDEN["text"]
    assert sum(event.samples.size for event in events) == GOLDEN["samples"]
    kinds = ["text" if event.text else "sound" for event in events]
    assert kinds.index("sound") < len(kinds) - 1 - kinds[::-1].index("text")  # sound before the last word
    answer = reply.answer()
    assert (answer.text, answer.stopped, answer.clip.seconds) == (GOLDEN["text"], "end", GOLDEN["samples"] / 24_000)
    np.testing.assert_array_equal(answer.clip.samples, np.concatenate([event.samples for event in events]))
    np.testing.assert_array_equal(answer.clip.codes, thinker_case("text").tensors["frames"].numpy())
    assert 0 < answer.first_s < answer.first_sound_s < answer.wall_s
    assert answer.first_s < answer.text_s <= answer.wall_s
    assert answer.tokens_per_s == pytest.approx((len(answer.tokens) - 1) / (answer.text_s - answer.first_s))
    assert answer.rtf == pytest.approx(answer.wall_s / answer.clip.seconds)


def test_the_same_words_as_in_text_alone(assistant: omnitts.Assistant) -> None:
    for system in (SYSTEM, ""):
        options = {**ASKED, "system": system}
        spoken = assistant.speak(QUESTION, **options).answer()
        assert spoken.tokens == assistant.ask(QUESTION, system=system or None, max_tokens=14).tokens
    style = assistant.speak(QUESTION, max_tokens=3).answer()
    assert style.prompt_tokens == assistant.ask(QUESTION, system=assistant.spoken_style, max_tokens=3).prompt_tokens


def test_a_recording_is_answered_aloud(assistant: omnitts.Assistant, tmp_path: Path) -> None:
    golden = thinker_case("audio")
    soundfile.write(tmp_path / "mid.wav", clip("mid"), 16_000, subtype="PCM_16")
    options = {**ASKED, "max_tokens": golden.meta["most"] - 1}
    answer = assistant.speak(audio=tmp_path / "mid.wav", **options).answer()
    np.testing.assert_array_equal(answer.clip.codes[:21], golden.tensors["frames"].numpy())


def test_seeds_voices_and_threads(assistant: omnitts.Assistant) -> None:
    def codes(seed: int, voice: str = "ethan") -> bytes:
        options = {"system": SYSTEM, "max_tokens": 3, "voice": voice}
        return assistant.speak(QUESTION, seed=seed, **options).answer().clip.codes.tobytes()

    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(codes, [1, 2, 1], ["ethan", "ethan", "aiden"]))
    assert together == [codes(1), codes(2), codes(1, "aiden")]
    assert len(set(together)) == 3
    assert assistant.voices == ("ethan", "chelsie", "aiden")
    with pytest.raises(VoiceError, match="voice 'nobody' not found"):
        assistant.speak(QUESTION, voice="nobody")


def test_a_conversation_that_is_spoken(assistant: omnitts.Assistant) -> None:
    talk = assistant.conversation(system=SYSTEM)
    first = talk.keep(QUESTION, talk.speak(QUESTION, max_tokens=14, **GREEDY).answer())
    second = talk.speak("hello", max_tokens=5).answer()
    assert second.cached_tokens == first.prompt_tokens + len(first.tokens)
    assert second.clip.seconds > 0


def test_an_early_end_frees_both_slots(assistant: omnitts.Assistant) -> None:
    for count in (1, 4):
        with assistant.speak(QUESTION, **{**ASKED, "max_tokens": 200}) as reply:
            for _ in range(count):
                next(iter(reply))
        assert reply.stopped == "cancelled"
        assert list(reply) == []
        assert reply.answer().clip.seconds == reply.seconds
    assert assistant.speak(QUESTION, **ASKED).answer().text == GOLDEN["text"]
    assert assistant.loop.speech.snapshot().free == (0, 1, 2)


def test_speech_that_reaches_its_limit_is_reported(assistant: omnitts.Assistant) -> None:
    answer = assistant.speak(QUESTION, system=SYSTEM, max_tokens=150, temperature=8, seed=1).answer()
    assert answer.clip.seconds == pytest.approx(LONGEST_S, abs=0.1)
    assert [notice.message for notice in answer.notices] == ["the speech was cut at its longest"]


def test_without_speech(tmp_path: Path) -> None:
    with omnitts.load_assistant(thinker_folder(), device="cpu", threads=1, context=64, slots=1) as silent:
        assert silent.voices == ()
        assert silent.ask(QUESTION, max_tokens=2).clip is None
        with pytest.raises(UsageError, match="opened without speech"):
            silent.speak(QUESTION)


def test_a_model_that_only_writes_cannot_speak(tmp_path: Path) -> None:
    import json
    import shutil

    folder = tmp_path / "writes"
    shutil.copytree(thinker_folder(), folder)
    config = json.loads((folder / "config.json").read_text())
    config["enable_audio_output"] = False
    del config["talker_config"], config["code2wav_config"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="it cannot speak"):
        omnitts.load_assistant(folder, device="cpu", speech=True)
