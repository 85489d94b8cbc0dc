"""Asked: fields of other servers mean ours, and what contradicts itself is refused."""

from typing import Any

import pytest

from omnitts_cli.server.asked import Asked, asked_of
from omnitts_cli.server.problems import Problem


def asked(**fields: Any) -> Asked:
    return asked_of({"input": "Hello.", **fields}, 100)


def refused(**fields: Any) -> str | None:
    with pytest.raises(Problem) as caught:
        asked(**fields)
    assert caught.value.status == 400
    return caught.value.param


def test_other_names_of_fields() -> None:
    assert asked(speaker="ben").voice == asked(voice_id={"id": "ben"}).voice == "ben"
    assert asked_of({"text": "Hi.", "model_id": "m", "language_code": "de"}, 100).text == "Hi."
    assert asked(lang_code="b").speech.language == asked(lang_code="en-us").speech.language == "en"
    assert asked(volume_multiplier=2).speech.volume == pytest.approx(6.02, abs=0.01)
    assert asked(normalization_options={"normalize": False}).how.normalize is False
    assert asked(apply_text_normalization="ON").how.normalize is True
    assert asked(ssml=True).how.input_format == "ssml" and asked(ssml=False).how.input_format == "auto"
    made = asked(output_format="pcm_16000", voice_settings={"speed": 1.5, "stability": 1})
    assert (made.form, made.sample_rate, made.speech.speed) == ("pcm", 16_000, 1.5)
    assert made.ignored == ("voice_settings.stability",)
    made = asked(word_timestamps=True, stream_format="sse")
    assert made.words and made.sentences


def test_references_are_one_clip_and_said_twice_no_contradiction() -> None:
    assert asked(voice="ben", speaker="ben").voice == asked(voice={"id": "ben"}, speaker="ben").voice == "ben"
    assert refused(voice="ann", speaker="ben") == "speaker"
    assert refused(speaker="ann", voice_id="ben") == "voice_id"
    assert refused(language="de", lang_code="en") == "lang_code"
    clip = {"audio_path": "QUJD", "text": "Yes."}
    assert asked(references=[clip], ref_audio="QUJD").clip == asked(references=[clip]).clip
    assert refused(references=[clip], ref_audio="other") == "references"
    assert refused(references=[clip], ref_text="No.") == "references"
    made = asked(references=[{"audio_path": "QUJD", "text": "Yes."}])
    assert (made.task, made.clip and (made.clip.source, made.clip.transcript)) == ("cloned", ("QUJD", "Yes."))
    for wrong in ([], [{}], [{"audio_path": "a"}] * 2, ["a"], [{"vq_codes": [1]}], [{"audio_path": 3}],
                  [{"audio_path": "a", "text": 7}]):  # fmt: skip
        assert refused(references=wrong) == "references"


def test_a_voice_as_values() -> None:
    made = asked(speaker_embedding=[1, 0.5])
    assert made.task == "cloned" and made.vector is not None and made.vector.tolist() == [1, 0.5]
    for wrong in ([], "x", [True], [[1.0]], [1e300], [float("inf")], [10**400], [0.0] * 9000):
        assert (wrong == "x" and refused(speaker_embedding=wrong)) or refused(speaker_embedding=wrong)
    assert refused(speaker_embedding=[1], ref_audio="QUJD") == "speaker_embedding"
    assert refused(speaker_embedding=[1], task_type="CustomVoice") == "task_type"


def test_aliases_of_voices() -> None:
    aliases = {"Slow": {"voice": "ben", "rate": 0.8}, "b": "ann"}
    made = asked(voice="slow", voice_aliases=aliases, speed=2)
    assert (made.voice, made.speech.speed) == ("ben", pytest.approx(1.6))
    assert asked(voice="b", voice_aliases=aliases).voice == "ann"
    assert asked(voice="other", voice_aliases=aliases).voice == "other"
    for wrong in ({"b": 3}, {"b": {}}, {"b": {"voice": "ann", "rate": 9}}):
        assert refused(voice="b", voice_aliases=wrong) == "voice_aliases"


def test_stream_alone_means_events_and_flac_is_whole_unless_streamed() -> None:
    assert asked(stream=True).sse and not asked(stream=True, stream_format="audio").sse
    assert not asked(stream=True, stream_format="audio").whole and asked(stream=False).whole
    assert not asked().whole and asked(response_format="flac").whole
    assert not asked(response_format="flac", stream=True, stream_format="audio").whole


def test_any_seed_is_taken_and_a_voice_that_a_clip_replaces_is_reported() -> None:
    assert asked(seed=-1).speech.seed is None and asked(seed=-1).ignored == ()
    assert asked(max_new_tokens=2048).speech.max_frames == 2048
    assert asked(initial_codec_chunk_frames=0).ignored == ("initial_codec_chunk_frames",)
    assert refused(max_new_tokens=0) == "max_new_tokens" and refused(max_new_tokens=1 << 30) == "max_new_tokens"
    assert asked(voice="ann", ref_audio="QUJD").ignored == ("voice",)
    assert asked(speaker="ann", task_type="VoiceDesign", instructions="deep").ignored == ("speaker",)
