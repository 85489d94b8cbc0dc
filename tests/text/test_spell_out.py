"""Written English as it is read aloud, and as a model reads it that knows letters only."""

import re
from pathlib import Path

import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.errors import InputError
from omnitts_cli.text.spell_out import plain_letters, plain_part, spell_out

TABLE = Path(__file__).parent / "written_forms.tsv"


@pytest.mark.parametrize(("written", "read"), [
    ("5:00", "five o'clock"), ("on 2026-11-21", "on November twenty first, twenty twenty six"),
    ("555-123-4567", "five five five, one two three, four five six seven"),
    ("Mr. Smith vs. Dr. Jones, etc.", "Mister Smith versus Doctor Jones, et cetera."),
    ("-5 degrees, x-ray, 10-fold", "minus five degrees, x-ray, ten-fold"),
])  # fmt: skip
def test_words_come_with_their_marks_and_capitals(written: str, read: str) -> None:
    """written_forms.tsv has every kind of written form, word by word."""
    assert spell_out(written) == read


FORMS = [line.split("\t")[0] for line in TABLE.read_text("utf-8").splitlines() if line[:1] not in ("", "#")]
BITS = ["per", "et al.", "v 3", "p.", "etc.", "a@b.co", "xhttp://a.b", "ftp://q", "and/or", "deadbe3f", "* 4", "–"]
PARTS = st.one_of(st.sampled_from(FORMS + BITS), st.text("avpe 19.,-–/*@$€'(^~½²é\t", max_size=6))


@settings(derandomize=True, deadline=None)
@given(st.lists(PARTS, max_size=8), st.sampled_from([" ", "", ", ", "-"]))
def test_no_rule_begins_where_none_is_tried(parts: list[str], between: str) -> None:
    text = between.join(parts)
    assert spell_out(text) == spell_out_everywhere(text)


def spell_out_everywhere(text: str) -> str:
    """The same, with every rule tried at every place."""
    every = re.compile("(?s:.)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnitts_cli.text.spell_out.PLACES", every)
        return spell_out(text)


def test_the_table_of_written_forms() -> None:
    """Each line of the table is read word by word as it says; what is ambiguous is decided there, once."""
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line and not line.startswith("# ")]
    wrong = []
    for line in lines:
        written, read = line.split("\t")
        for said in (plain_part(written), plain_part(f"So {written} it is.")):
            if not said_words(read) == said_words(said).removeprefix("so ").removesuffix(" it is"):
                wrong.append(f"{written}: {said}")
    assert len(lines) >= 400 and wrong == []


def said_words(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", text.casefold().replace("’", "'")))


@pytest.mark.parametrize("text", [
    "Part I liked most was the end.", "He sat. Max. was there, and no. one knew.",
    "The X and the I, an IV drip, a CD, MIX it, Did I?", "well-known, x-ray, A-Z, 'quoted', e-mail",
])  # fmt: skip
def test_words_that_only_look_like_short_forms_stay(text: str) -> None:
    assert spell_out(text) == text


@pytest.mark.parametrize("text", ["Nothing to do here.", "  two  ", "\u201cQuoted\u201d, naïve; really?"])
def test_words_stay_as_they_are(text: str) -> None:
    assert spell_out(text).strip() == re.sub(" +", " ", text).strip()


@pytest.mark.parametrize(("written", "read"), [
    ("“Quoted” (aside) — dash… naïve café", "Quoted, aside, dash. naive cafe."),
    ("Straße, Œuvre, Łódź", "Strasse, Oeuvre, Lodz."), ("AT&T and C++", "AT and T and C plus plus."),
    ("a_b path/to `code` *bold*", "A b path slash to code bold."), ("Hello!!! What?!", "Hello! What?"),
    ("the U.S. is wide", "The U S is wide."), ("made in the U.S.", "Made in the U S."),
    ("π is 3.14", "Pi is three point one four."), ("first; second: third", "First, second, third."),
    ("ﬁne ＡＢＣ", "Fine ABC."), ("done 🙂", "Done."), ("rock'n'roll isn’t", "Rock'n'roll isn't."),
])  # fmt: skip
def test_plain_letters(written: str, read: str) -> None:
    assert plain_letters(written) == read


def test_parts_keep_their_ends() -> None:
    assert plain_part(" and 5 ") + plain_part("more,") == " and five more,"


@pytest.mark.parametrize("text", ["🙂!", "...", "—", "🎉🎉"])
def test_what_has_no_sound_is_empty(text: str) -> None:
    assert plain_letters(text) == ""


@pytest.mark.parametrize(("text", "letters"), [("The word 東京 is here", "東京"), ("привет", "привет"), ("αβγ", "αβγ")])
def test_letters_of_other_scripts_are_refused(text: str, letters: str) -> None:
    with pytest.raises(InputError) as raised:
        plain_letters(text)
    assert f"'{letters}'" in raised.value.message and "-m 0.6b" in str(raised.value.hint)


@given(st.text(max_size=60))
def test_only_plain_letters_come_out(text: str) -> None:
    try:
        read = plain_letters(text)
    except InputError:
        return
    assert re.fullmatch(r"[A-Za-z ,.!?'-]*", read)
    assert not read or (read[-1] in ".!?" and read == read.strip())


@pytest.mark.parametrize(
    "bit", ["1", "1,", "1.", "1/", "1-", "-", "a@", "a.", "$1", "http://", "1:", "A.M", "1 ", "4B ", "<a ", "~/a"]
)
def test_time_is_linear(bit: str) -> None:
    grows_linearly(lambda count: plain_letters(bit * count), 2_000, 20_000)
