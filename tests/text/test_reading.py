"""Reading: where a piece is cut for a model that says little in one go, and what it reads of each part."""

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from omnitts_cli.text.inputs import TextOptions, pieces_of_text
from omnitts_cli.text.lexicon import Lexicon
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.reading import GOES_ON, GROWTH, language_readers, parts_of, readings
from omnitts_cli.text.spell_out import plain_letters

LONG = "The first half of it is here, with a comma before the second; and the third begins behind a semicolon."


def test_a_piece_that_is_short_enough_stays_as_it_is() -> None:
    piece = Piece(LONG, 3, 3 + len(LONG), 2, "paragraph")
    assert parts_of(piece, None) == parts_of(piece, len(LONG)) == [piece]
    assert readings(piece, None, None) == [(piece, LONG)]
    pause = Piece("", 0, 9, pause_s=0.5)
    assert readings(pause, None, 20) == [(pause, "")]


def test_the_parts_of_a_piece_follow_each_other_as_written() -> None:
    parts = parts_of(Piece(LONG, 0, len(LONG), gap="paragraph"), 64)
    assert [part.text for part in parts] == [LONG[:61], LONG[62:]]
    assert [part.gap for part in parts] == ["paragraph", "none"]
    assert [part for part, _ in readings(Piece(LONG, 0, len(LONG), gap="paragraph"), None, 64)] == parts
    sentences = parts_of(Piece("This is one sentence. That is another one.", 0, 42), 30)
    assert [(part.text, part.gap) for part in sentences] == [
        ("This is one sentence.", "none"),
        ("That is another one.", "sentence"),
    ]


def test_what_words_made_too_long_is_cut_again() -> None:
    piece = Piece("1234567 " * 6 + "and done.", 0, 57, gap="paragraph")
    parts = readings(piece, plain_letters, 110)
    assert len(parts) > 3 and [part.gap for part, _ in parts] == ["paragraph"] + ["none"] * (len(parts) - 1)
    assert all(len(text) <= 112 for _, text in parts)
    assert " ".join(part.as_written for part, _ in parts) == piece.text
    assert " ".join(text.rstrip(".,") for _, text in parts).lower() == plain_letters(piece.text).rstrip(".").lower()
    assert readings(piece, None, 110) == [(piece, piece.text)]
    assert len(readings(piece, plain_letters, None)) == 1
    short = Piece("All 5 of them.", 0, 14)
    assert readings(short, plain_letters, 110) == [(short, "All five of them.")]


SEVERAL = SimpleNamespace(plain_letters=True, languages=("english", "spanish", "french"))


def spoken_in(model: SimpleNamespace, *texts: str, wanted: bool | None = None, **how: object) -> list[tuple[str, str]]:
    """The language and the words of each piece."""
    made = {"language": None, "certain": False, "unreadable": "skip", "tell": lambda notice: None} | how
    readers, found = language_readers(model, wanted=wanted, **made), []  # type: ignore[arg-type]
    for text in texts:
        piece = Piece(text.partition("|")[2] or text, 0, 1, language=text.partition("|")[0] if "|" in text else "")
        piece, read = readers.of(piece)
        found.append((piece.language, read(piece.text) if read else piece.text))
    return found


def test_each_sentence_is_read_in_its_own_language() -> None:
    assert spoken_in(SEVERAL, "I have 2.", "Tengo 2 días.", "OK, 7.", "J'ai 2 chats dans la maison.", "I have 2.") == [
        ("en", "I have two."), ("es", "Tengo dos días."), ("es", "OK, siete."),
        ("fr", "J'ai deux chats dans la maison."), ("en", "I have two."),
    ]  # fmt: skip


def test_a_given_language_is_that_of_all_but_what_the_document_says() -> None:
    told: list[str] = []
    found = spoken_in(
        SEVERAL, "2 days here.", "fr|2", "de|2", "de|2", language="es", certain=True,
        tell=lambda notice: told.append(str(notice)),
    )  # fmt: skip
    assert found == [("", "dos days here."), ("fr", "deux."), ("", "dos."), ("", "dos.")]
    assert len(told) == 1 and "German" in told[0]


def test_a_model_that_takes_the_language_from_the_text_is_told_nothing() -> None:
    told: list[object] = []
    model = SimpleNamespace(plain_letters=False, languages=())
    assert spoken_in(model, "es|Tengo 2 días.", "Two.", tell=told.append) == [("", "Tengo 2 días."), ("", "Two.")]
    assert told == []


def test_a_model_that_reads_digits_gets_the_language_alone() -> None:
    model = SimpleNamespace(plain_letters=False, languages=("english", "german", "spanish"))
    assert spoken_in(model, "I have 2.", "es|Tengo 2 días.") == [("", "I have 2."), ("es", "Tengo 2 días.")]
    read = spoken_in(model, "es|Tengo 2.", "de|Ich habe 2.", wanted=True, language="en")
    assert read == [("es", "Tengo dos."), ("de", "Ich habe two.")]


def test_no_number_is_cut() -> None:
    text = (
        "After a very long discussion the committee agreed to pay the contractor a total of $4,567,890.12 for the new "
        "bridge"
    )
    price = "four million five hundred sixty seven thousand eight hundred ninety dollars and twelve cents"
    found = readings(Piece(text, 0, len(text)), plain_letters, 110)
    assert len(found) > 1 and " ".join(part.text for part, _ in found) == text
    assert sum(price in words.lower() for _, words in found) == 1
    assert not any(words.rstrip(".").endswith((" a", " of", " the")) for _, words in found)
    assert min(len(words) for _, words in found) > 25
    text = "The town had about 2 345 678 inhabitants and 1 234 567 of them had come from the villages of the valley"
    parts = [part.text for part, _ in readings(Piece(text, 0, len(text)), plain_letters, 90)]
    assert len(parts) > 1 and " ".join(parts) == text
    assert all(any(number in part for part in parts) for number in ("2 345 678", "1 234 567"))


def test_subtitles_show_every_piece_as_it_was_written() -> None:
    text = "They came at 5 and left at 7, " * 5 + "and that was all."
    found = readings(Piece(text, 0, len(text)), plain_letters, 110)
    assert "".join(part.text + " " for part, _ in found).split() == text.split()
    assert "five" in found[0][1] and "5" in found[0][0].text
    text = "Dr. Smith paid $42.50 at 221B Baker St. on 3/4/2025, and Mr. and Mrs. Jones paid $1,234.56 at 9:05 pm."
    found = readings(Piece(text, 0, len(text)), plain_letters, 60)
    assert len(found) > 2
    assert " ".join(part.as_written for part, _ in found if part.as_written != GOES_ON) == text
    assert all(not any(c.isdigit() for c in read) for _, read in found)
    one = readings(Piece("Pay " + "9" * 60 + " now.", 0, 69), plain_letters, 60)
    assert one[0][0].as_written.startswith("Pay 999") and one[1][0].as_written == GOES_ON


def test_subtitles_show_what_a_lexicon_has_replaced() -> None:
    lexicon = Lexicon()
    lexicon.add([("omnitts", "omni tee tee ess")])
    (piece,) = pieces_of_text("We speak with omnitts today.", TextOptions(lexicon=lexicon))
    assert piece.text == "We speak with omni tee tee ess today."
    assert piece.as_written == "We speak with omnitts today."
    parts = parts_of(replace(piece, text=piece.text * 2, written=piece.written * 2), 30)
    assert " ".join(part.as_written for part in parts) == piece.written * 2


@example("1111111111111111111..", 20)
@given(st.text("ab1.,! -5%\n", min_size=1, max_size=400), st.integers(20, 120))
def test_nothing_is_lost_and_nothing_is_too_long(text: str, longest: int) -> None:
    text = " ".join(text.split())
    parts = parts_of(Piece(text, 0, len(text)), longest)
    assert all(len(part.text) <= max(longest, 20) for part in parts)
    kept = "".join(part.text for part in parts)
    assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]
    for _, read in readings(Piece(text, 0, len(text)), str.upper, longest):
        assert len(read) <= longest * GROWTH


def test_a_part_that_goes_on_is_not_closed_like_a_sentence() -> None:
    text = (
        "The central bank left its main rate unchanged on Thursday and signaled that it still expects to cut its main "
        "rate twice this year, although prices rise. It was late."
    )
    (piece, last) = pieces_of_text(text)
    found = [words for _, words in readings(piece, plain_letters, 110)]
    assert len(found) == 2 and found[0].endswith(",") and found[1].endswith("although prices rise.")
    assert found[1][0].islower() and [words for _, words in readings(last, plain_letters, 110)] == ["It was late."]
    unfinished = replace(piece, goes_on=True)
    assert [words for _, words in readings(unfinished, plain_letters, 110)][-1].endswith("although prices rise,")
    several = readings(Piece(text, 0, len(text)), plain_letters, 110)
    assert [words[-1] for _, words in several] == [",", ".", "."]


def test_a_mark_that_is_said_stays_at_a_cut() -> None:
    text = '"Will nobody ever tell me the truth about it?" asked the old woman who had come in from the garden.'
    found = readings(Piece(text, 0, len(text)), plain_letters, 80)
    assert [words[-1] for _, words in found] == ["?", "."]
