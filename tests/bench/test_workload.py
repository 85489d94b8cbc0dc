"""Workload: texts by language and length, requests that repeat with their seed."""

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnitts_cli.bench import workload
from omnitts_cli.bench.workload import BenchText, Workload, of_length, read_texts, requests, sample_texts
from omnitts_cli.errors import InputError

TEN = ["chinese", "english", "french", "german", "italian", "japanese", "korean", "portuguese", "russian", "spanish"]


def test_there_are_texts_in_ten_languages_and_every_length() -> None:
    assert workload.languages() == TEN
    for language in TEN:
        short, medium, long = (sample_texts([language], length) for length in ("short", "medium", "long"))
        assert len(short) == len(medium) == len(long) >= 2
        assert max(len(t.words) for t in short) <= min(len(t.words) for t in medium)
        assert max(len(t.words) for t in medium) <= min(len(t.words) for t in long)
        assert {t.language for t in short + medium + long} == {language}
        assert sorted(t.words for t in short + medium + long) == sorted(
            t.words for t in sample_texts([language], "mix")
        )


def test_languages_take_turns() -> None:
    texts = sample_texts(["german", "english"], "mix")
    assert [text.language for text in texts[:4]] == ["german", "english", "german", "english"]


def test_thirds_of_lines_that_do_not_divide() -> None:
    lines = ["a" * n for n in (5, 1, 4, 2, 3)]
    parts = [of_length(lines, length) for length in ("short", "medium", "long")]
    assert sorted(line for part in parts for line in part) == sorted(lines)
    assert parts[0] == ["a"]
    assert of_length(lines, "mix") == lines


def test_the_same_seed_gives_the_same_requests() -> None:
    texts = [BenchText(str(n), "english") for n in range(9)]

    def first(seed: int) -> list[tuple[str, int]]:
        works = islice(Workload(texts, seed=seed).works(), 20)
        return [(work.request.text, work.request.seed) for work in works]

    assert first(3) == first(3) != first(4)
    assert {text for text, _ in first(3)[:9]} == {text.words for text in texts}
    assert len({seed for _, seed in first(3)}) == 20


def test_a_fixed_number_of_frames_ignores_the_end_code() -> None:
    work = next(Workload([BenchText("a")], frames=7).works())
    assert (work.request.max_frames, work.request.ignore_end, work.fixed) == (7, True, True)
    free = next(Workload([BenchText("a")]).works())
    assert (free.request.max_frames, free.request.ignore_end, free.fixed) == (None, False, False)


def test_texts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"\xef\xbb\xbfOne line.\r\n\r\n  Another \n")
    assert read_texts(path, "english") == [BenchText("One line.", "english"), BenchText("Another", "english")]


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xff\xfe\x00"])
def test_files_without_texts_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"texts\.txt"):
        read_texts(path, None)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            read_texts(path, None)


def able(longest: int | None = None, plain: bool = False) -> Any:
    return SimpleNamespace(longest_piece=longest, plain_letters=plain)


def test_a_model_that_reads_everything_gets_the_texts_as_they_are() -> None:
    texts = [BenchText("It costs $5. Really, 5!", "english"), BenchText("五", "chinese")]
    assert requests(texts, able()) == texts


def test_what_must_be_plain_is_read_and_what_is_long_is_cut() -> None:
    texts = [BenchText("It costs only $5. Really, no more than 5!", "english"), BenchText("--", "english")]
    assert requests(texts, able(plain=True)) == [
        BenchText("It costs only five dollars. Really, no more than five!", "english")
    ]
    pieces = ["It costs only five dollars.", "Really, no more than five!"]
    assert requests(texts, able(40, plain=True)) == [BenchText(words, "english") for words in pieces]
    assert [text.words for text in requests(texts[:1], able(40))] == ["It costs only $5.", "Really, no more than 5!"]
    assert all(len(text.words) <= 110 for text in requests(sample_texts(["english"], "mix"), able(110, plain=True)))


def test_what_the_model_cannot_say_is_refused() -> None:
    for text, words in (("--", "nothing to speak"), ("五", "五")):
        with pytest.raises(InputError, match=words):
            requests([BenchText(text)], able(plain=True))
