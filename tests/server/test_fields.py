"""Fields: what each field of a request takes, which server it comes from, and what becomes of it here."""

from pathlib import Path
from typing import Any

import pytest
from serving import Running

import omnitts_cli
from omnitts_cli.server.asked import FieldReader, asked_of
from omnitts_cli.server.fields import FIELDS, SERVERS, TABLE, RequestField, table
from omnitts_cli.server.problems import Problem

HELP = Path(omnitts_cli.__file__).parent / "help" / "serve.md"
GOOD: dict[str, Any] = {
    "items": [], "references": [{"audio_path": "QUJD"}], "voice_settings": {"speed": 2, "stability": 0.5},
    "normalization_options": {"normalize": True, "url_normalization": True}, "output_format": "pcm_24000",
    "voice_aliases": {"me": "ann"}, "lexicon": {"a": "b"}, "speaker_embedding": [0.5, 1], "lang_code": "a",
    "sample_rate": 24_000, "loudness": -16,
    "task_type": "Base", "language": "en", "language_code": "de", "extra_params": {}, "stage_params": {},
}  # fmt: skip
"""A good value of the fields that are no plain string, number or switch."""
HUGE = ["x" * (16 << 20) + "x", 10**400, 1e308, ["x"] * 100_000, {"x": ["y"] * 10_000}]
WRONG = [*HUGE, 3, -7.5, True, "", "\0", [], {}, [{}], {"id": 7}, [[1]], {"speed": "x"}, {"normalize": 3}]


def good(field: RequestField) -> Any:
    """A value that the field takes."""
    if field.name in GOOD:
        return GOOD[field.name]
    candidates = [field.kind.choices[0] if field.kind.choices else None, "ann", 1, True, "on", "audio", "word", "mp3"]
    return next(one for one in (*candidates, [], {}, *field.harmless) if one is not None and field.kind.accepts(one))


def test_the_help_page_shows_the_table() -> None:
    text = HELP.read_text("utf-8")
    assert table() in text, f"help/serve.md has to contain:\n{table()}"
    assert all(name in text for name in SERVERS.values())


def test_each_field_stands_once_and_names_its_servers() -> None:
    assert len(TABLE) == len(FIELDS)
    assert all(set(field.of) <= set(SERVERS) for field in FIELDS)
    assert {letter for field in FIELDS for letter in field.of} == set(SERVERS)


def test_no_field_that_chooses_the_voice_is_ignored() -> None:
    choosing = {field.name: field.use for field in FIELDS if field.voice}
    assert {"voice", "speaker", "voice_id", "references", "ref_audio", "speaker_embedding"} <= set(choosing)
    assert "ignored" not in choosing.values()
    words = ("voice", "speaker", "ref_audio", "reference")
    assert [one.name for one in FIELDS if one.use == "ignored" and any(word in one.name for word in words)] == []


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_what_the_table_says_is_what_the_code_does(field: RequestField) -> None:
    """Used and mapped fields are taken; ignored ones are told; refused ones are 400."""
    values: dict[str, Any] = {"input": "Hello."} | {field.name: good(field)}
    if field.name == "text":
        del values["input"]
    if field.name in ("ref_text", "x_vector_only_mode"):
        values["ref_audio"] = "QUJD"
    if field.name == "ignore_eos":
        values["max_new_tokens"] = 5
    if field.use == "refused":
        values[field.name] = "other" if field.kind.accepts("other") else True
        if field.name == "allow_voice_tags":
            values["input"] = "[voice:ben] Hello."
        with pytest.raises(Problem) as caught:
            asked_of(values, 100)
        assert (caught.value.status, caught.value.param) == (400, field.name)
        return
    ignored = asked_of(values, 100).ignored
    elsewhere = field.name in ("items", "stream_audio")  # of the batch and of the WebSocket
    assert (field.name in ignored) is (field.use == "ignored" or elsewhere)
    if field.use == "mapped":
        reader = FieldReader(values | {"voice": "me"} if field.name == "voice_aliases" else values)
        assert {target for target, origin in reader.sent.items() if origin == field.name}


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_wrong_value_is_400_for_its_field(field: RequestField) -> None:
    """Never another error; and what is taken is a value that the table allows."""
    refused = 0
    for value in WRONG:
        values = {"input": "Hello.", "ref_audio": "QUJD", "max_new_tokens": 5, field.name: value}
        if field.name in ("speaker_embedding", "references", "task_type"):
            del values["ref_audio"]
        if field.name == "text":
            del values["input"]
        try:
            asked_of(values, 100)
        except Problem as problem:
            assert problem.status == 400 and len(problem.message) < 400
            named = {field.name, "input"} if field.name == "text" else {field.name}
            assert problem.param in named | ({"loudness"} if field.name in ("stream", "stream_format") else set())
            refused += 1
    assert refused or field.kind.words == "anything"


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_an_empty_string_and_null_are_absent(field: RequestField) -> None:
    if field.name in ("input", "text"):
        with pytest.raises(Problem):
            asked_of({"input": None}, 100)
        return
    plain = asked_of({"input": "Hello."}, 100)
    for nothing in ("", None):
        assert asked_of({"input": "Hello.", field.name: nothing}, 100) == plain


SENT = ["x" * 300_000, 10**300, 1e308, -7.5, True, "\0", [], {}, [{}], {"id": 7}, ["x"] * 10_000]
"""What is sent over HTTP: wrong types and huge values. Some fields take some of them."""
SHORT = {"input": "Hi.", "response_format": "pcm", "seed": 7, "max_new_tokens": 1, "ignore_eos": True}
NEEDED = {"ref_text": "ref_audio", "x_vector_only_mode": "ref_audio", "text": "input", "stream": "loudness",
          "stream_format": "loudness"}  # fmt: skip
"""What else an error can be about, since the one field does not go without or with the other."""


def test_over_http_a_wrong_value_is_400_with_its_name_and_never_another_voice(server: Running) -> None:
    voice = server.request("POST", "/v1/audio/speech", SHORT).headers["x-voice"]
    for field in FIELDS:
        for value in SENT:
            answer = server.request("POST", "/v1/audio/speech", {**SHORT, field.name: value})
            where = (field.name, str(value)[:30], answer.status, answer.body[:200])
            if answer.status == 200:
                assert field.use == "ignored" or field.kind.accepts(value), where
                assert answer.headers["x-voice"] == voice, where
            else:
                assert answer.status in (400, 404), where
                assert answer.json["error"]["param"] in (field.name, NEEDED.get(field.name)), where


def test_over_http_empty_strings_and_null_change_nothing(server: Running) -> None:
    plain = server.request("POST", "/v1/audio/speech", SHORT)
    for nothing in ("", None):
        empty = {field.name: nothing for field in FIELDS if field.name not in ("input", "text")}
        answer = server.request("POST", "/v1/audio/speech", empty | SHORT)
        assert (answer.status, answer.body) == (200, plain.body), answer.body[:200]
        assert answer.headers["x-voice"] == plain.headers["x-voice"] and "x-ignored-fields" not in answer.headers
        for name in ("input", "text"):
            assert server.request("POST", "/v1/audio/speech", {name: nothing}).status == 400
