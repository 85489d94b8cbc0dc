"""Bytes to text: the place of a wrong byte, byte order marks, any cuts."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.decode import TextDecoder, decode

TEXT = "Grüße, 世界 \U0001f600\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-be"])
def test_marks_are_recognised_and_removed(encoding: str) -> None:
    marked = "\ufeff" if encoding[-3:] in ("-le", "-be") else ""
    assert decode((marked + TEXT).encode(encoding)) == TEXT


def test_a_wrong_byte_is_reported_with_its_place() -> None:
    with pytest.raises(InputError, match=r"standard input is not utf-8 text: byte 0xff at offset 8") as caught:
        TextDecoder().feed("Grüße!".encode() + b"\xff and more")
    assert caught.value.exit_code == 3 and "--encoding" in (caught.value.hint or "")


@given(st.text(max_size=20), st.lists(st.integers(0, 60), max_size=5))
def test_the_place_does_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace") + b"\x80 tail"
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return
    decoder, last = TextDecoder(), 0
    with pytest.raises(InputError, match=f"offset {len(data) - 6}$"):
        for cut in [*sorted({min(cut, len(data)) for cut in cuts}), len(data)]:
            decoder.feed(data[last:cut])
            last = cut


@given(
    st.text(max_size=30),
    st.lists(st.integers(0, 100), max_size=8),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_any_cuts_are_the_whole(text: str, cuts: list[int], encoding: str) -> None:
    data = text.encode(encoding, "replace")
    if encoding == "utf-8" and data[:1] in (b"\xef", b"\xff", b"\xfe"):
        return
    assume(not (encoding == "utf-16" and text.startswith("\0")))  # these four bytes are the mark of UTF-32
    decoder, parts, last = TextDecoder(), [], 0
    for cut in [*sorted({min(cut, len(data)) for cut in cuts}), len(data)]:
        parts.append(decoder.feed(data[last:cut]))
        last = cut
    parts.append(decoder.feed(b"", final=True))
    assert "".join(parts) == data.decode(encoding)


def test_a_character_cut_off_at_the_end() -> None:
    with pytest.raises(InputError, match="offset 2"):
        decode("ab世".encode()[:-1])
    decoder = TextDecoder()
    assert decoder.feed("ab世".encode()[:-1]) == "ab"
    assert decoder.feed("ab世".encode()[-1:], final=True) == "世"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "gb18030", "shift_jis", "euc-kr", "koi8-r"])
def test_another_encoding_can_be_named(encoding: str) -> None:
    words = {"gb18030": "你好", "shift_jis": "日本", "euc-kr": "한국", "koi8-r": "мир"}.get(encoding, "é")
    assert decode(words.encode(encoding), encoding) == words


@pytest.mark.parametrize("encoding", ["no-such", "base64", "rot13", "zip", "", "a\0b"])
def test_encodings_that_cannot_be(encoding: str) -> None:
    if encoding == "":
        assert decode(b"x", None) == "x"
        return
    with pytest.raises(UsageError, match="--encoding"):
        TextDecoder(encoding)


def test_the_first_line_does_not_wait_for_a_mark() -> None:
    decoder = TextDecoder()
    assert decoder.feed(b"H") == "H"
    marked = TextDecoder()
    assert marked.feed(b"\xef\xbb") == "" and marked.feed(b"\xbfHi") == "Hi"
    empty = TextDecoder()
    assert empty.feed(b"", final=True) == ""
