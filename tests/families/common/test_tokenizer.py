"""TextTokenizer: the official tokenisation, plain characters only, and what is final while text still arrives."""

import json
from pathlib import Path

import pytest
from golden_cases import CASES
from golden_set import case, checkpoint
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnitts_cli.errors import InputError, ModelError
from omnitts_cli.families.common.tokenizer import PieceTokenizer, TextTokenizer, byte_vocabulary, read_tokenizer

ROWS = 640


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    return read_tokenizer(checkpoint("base"), ROWS)


@pytest.fixture(scope="session")
def compatible() -> TextTokenizer:
    """With the pattern that the official package uses by accident."""
    return read_tokenizer(checkpoint("base"), ROWS, mistral_pattern=True)


@pytest.mark.parametrize("name", CASES)
def test_official_ids(name: str, tokenizer: TextTokenizer) -> None:
    meta = case(name).meta
    said = meta["arguments"]
    texts = said["text"] if isinstance(said["text"], list) else [said["text"]]
    instructions = said.get("instruct")
    instructions = instructions if isinstance(instructions, list) else [instructions]
    newline = tokenizer.encode("\n")
    for text, ids in zip(texts, meta["assistant_ids"], strict=True):
        assert ids[3:-5] == tokenizer.encode(text)
        assert ids[1:3] == [*tokenizer.encode("assistant"), *newline]
    for text, ids in zip(instructions, meta["instruct_ids"], strict=True):
        if ids is not None:
            assert ids[1:-2] == tokenizer.encode(f"user\n{text}")
    for reference in meta.get("reference", []):
        if reference["ref_ids"] is not None:
            assert reference["ref_ids"][3:-2] == tokenizer.encode(reference["text"])


@pytest.mark.parametrize("word", ["<|im_start|>", "<|im_end|>", "<tts_pad>", "<|endoftext|>", "<tts_text_eod>"])
def test_words_of_the_template_are_plain_characters(word: str, tokenizer: TextTokenizer) -> None:
    special = 423
    ids = tokenizer.encode(f"a {word} b")
    assert len(ids) > 5 and max(ids) < special


def test_text_is_composed_before_it_is_cut(tokenizer: TextTokenizer) -> None:
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("caf\u00e9") != tokenizer.encode("cafe")


def test_the_two_patterns(tokenizer: TextTokenizer, compatible: TextTokenizer) -> None:
    """The other pattern cuts at capitals and has no contractions: "don't" stays and "aB" falls apart."""
    cut = [[word for word, _ in t._words.pre_tokenize_str("iPhone don't 你好ABC")] for t in (tokenizer, compatible)]
    assert cut[0] == ["iPhone", " don", "'t", " 你好ABC"]
    assert cut[1] == ["i", "Phone", " don", "'t", " 你好", "ABC"]


def test_half_characters_are_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(InputError, match=r"U\+D83D.*position 3"):
        tokenizer.encode("ab \ud83d")


@given(st.text(max_size=40))
def test_bytes_alone_can_spell_everything(text: str) -> None:
    tokenizer = TextTokenizer(byte_vocabulary(), [])
    assert len(tokenizer.encode(text)) == len(tokenizer.normal(text).encode())


@pytest.mark.parametrize(
    ("text", "tokens"),  # in the released vocabulary: 15, 21, 11, 20
    [
        ("The kettle is on, and the bread is still warm from the oven.", 15),
        ("Internationalisation isn't easy: 1234 of 10,000 failed.", 22),
        ("你好，今天天气很好，我们去公园吧。", 17),
        ("Сегодня хорошая погода, пойдём гулять в парк.", 22),
    ],
)
def test_random_models_have_about_as_many_tokens_as_released_ones(text: str, tokens: int) -> None:
    tokenizer = PieceTokenizer(151_936)
    ids = tokenizer.encode(text)
    assert len(ids) == tokens and max(ids) < 151_643
    assert ids == PieceTokenizer(151_936).encode(text) and len(set(ids)) > tokens / 2
    assert tokenizer.encode("\n") == tokenizer.newline and tokenizer.encode("") == []


# Characters in which pieces of text can lean on what follows: white space of all sorts, marks, jamo,
# contractions, punctuation that takes newlines along, letters outside ASCII, capitals.
IN_PIECES = PieceTokenizer(1000)
LEANING = "a B's tLl 12.!?,-\n\r\t \u0301\u0327\u00e9\u1100\u1161\u11a8\u3042\u3099"
LEANING += "\u4f60\u0416\u200d\ufe0f\x1c\u00a0\U0001f44d"


@settings(max_examples=400, deadline=None)
@given(st.text(st.sampled_from(LEANING) | st.characters(codec="utf-8"), max_size=30), st.data())
@example("a\n  \nb", None)
def test_settled_characters_keep_their_ids(
    tokenizer: TextTokenizer, compatible: TextTokenizer, text: str, data: st.DataObject | None
) -> None:
    """Whatever follows, the ids of the settled beginning stay the beginning of all ids."""
    for one in (tokenizer, compatible, IN_PIECES):
        for cut in range(len(text) + 1) if data is None else [data.draw(st.integers(0, len(text)))]:
            known = one.normal(text[:cut])
            settled = known[: one.settled(known)]
            whole = one.normal(text)
            assert whole.startswith(settled)
            assert one.encode(settled) + one.encode(whole[len(settled) :]) == one.encode(text)


def test_a_finished_word_is_settled(tokenizer: TextTokenizer) -> None:
    for text, settled in [
        ("hello world", 5), ("hello ", 5), ("hello", 0), ("one, two", 4), ("你好。再", 2), ("你好。 再", 3), ("", 0),
    ]:  # fmt: skip
        assert tokenizer.settled(text) == settled


def broken(folder: Path, **files: str) -> Path:
    for name in ("vocab.json", "merges.txt"):
        text = (checkpoint("base") / name).read_text(encoding="utf-8")
        (folder / name).write_text(files.get(name.split(".")[0], text), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("vocab", "says"), [
    ("[]", "JSON object"), ("{", "not valid JSON"), ("{}", "256 byte symbols"),
    (json.dumps({"a": 1}), "256 byte symbols"), (json.dumps({"a": -1}), "whole number"),
    (json.dumps({"a": 1.5}), "whole number"), (json.dumps({"a": True}), "whole number"),
    (json.dumps({"a": ROWS}), "whole number from 0 to 639"),
])  # fmt: skip
def test_a_vocabulary_that_cannot_be_used(vocab: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"vocab\.json") as raised:
        read_tokenizer(broken(tmp_path, vocab=vocab), ROWS)
    assert says in raised.value.message


@pytest.mark.parametrize("merges", ["a b c d", "ab", "h e\n  ", "no such", "h\te"])
def test_merges_that_cannot_be_used(merges: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"merges\.txt:[123]:"):
        read_tokenizer(broken(tmp_path, merges=f"#version: 0.2\n{merges}\n"), ROWS)


def test_a_merges_file_that_is_no_text(tmp_path: Path) -> None:
    folder = broken(tmp_path)
    (folder / "merges.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match=r"merges\.txt"):
        read_tokenizer(folder, ROWS)
