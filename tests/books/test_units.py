"""Units: where a chapter is cut, that a change stays local, and what a key depends on."""

import random
from dataclasses import replace

from omnitts_cli.books.cast import DEFAULT, Cast, Member
from omnitts_cli.books.units import LONG, LONGEST, SHORT, BookUnit, key_of, seed_of, units_of
from omnitts_cli.text.formats.block import Block
from omnitts_cli.text.inputs import TextOptions


def units(blocks: list[Block], cast: Cast | None = None) -> list[BookUnit]:
    return units_of((cast or Cast()).words(blocks, "chapter 1"), TextOptions(), 0.25)


def paragraphs(count: int) -> list[Block]:
    draw = random.Random(7)
    words = "sun moon river stone house garden window letter morning evening".split()
    return [
        Block(" ".join(f"The {draw.choice(words)} and the {draw.choice(words)} {draw.randrange(99)}."
                       for _ in range(draw.randrange(1, 9))))
        for _ in range(count)
    ]  # fmt: skip


def test_units_lose_nothing_and_are_neither_short_nor_long() -> None:
    blocks = paragraphs(300)
    found = units(blocks)
    assert " ".join(unit.text for unit in found) == " ".join(block.text for block in blocks)
    assert all(SHORT <= unit.chars <= LONG + 400 for unit in found[:-1]) and len(found) > 20
    assert all(unit.pieces[0].gap == "paragraph" for unit in found[1:]) and found[0].pieces[0].gap == "none"
    found = units([Block("This is one sentence of a very long paragraph. " * 400)])
    assert len(found) > 3 and all(unit.chars <= LONGEST + 400 for unit in found)
    assert all(unit.pieces[0].gap == "sentence" for unit in found[1:])


def test_a_changed_paragraph_changes_only_its_neighbourhood() -> None:
    blocks = paragraphs(300)
    before = {key_of(unit, "", lambda member: "") for unit in units(blocks)}
    for at in (0, 20, 299):
        changed = [*blocks[:at], Block("Something else stands here now."), *blocks[at + 1 :]]
        assert len({key_of(unit, "", lambda member: "") for unit in units(changed)} - before) <= 3
    inserted = [Block("A new beginning."), *blocks]
    assert len({key_of(unit, "", lambda member: "") for unit in units(inserted)} - before) <= 3


def test_a_pause_stands_before_another_speaker() -> None:
    cast = Cast({"Anna": Member("Anna")}, lines=True)
    first, second = units([Block("One."), Block("Anna: Two. [pause:2s] Three.")], cast)
    assert [piece.pause_s for piece in first.pieces] == [0.0]
    assert [piece.pause_s for piece in second.pieces] == [0.25, 0.0, 2.0, 0.0]


def test_what_a_key_depends_on() -> None:
    (unit,) = units([Block("Some words.")])
    key = key_of(unit, "shared", lambda member: "digest")
    others = [
        key_of(unit, "other", lambda member: "digest"),
        key_of(unit, "shared", lambda member: "other"),
        key_of(replace(unit, member=Member(speed=1.1)), "shared", lambda member: "digest"),
        key_of(BookUnit(DEFAULT, (replace(unit.pieces[0], gap="paragraph"),)), "shared", lambda member: "digest"),
    ]
    assert len({key, *others}) == 5
    assert key == key_of(replace(unit, member=Member("another name")), "shared", lambda member: "digest")
    assert seed_of(unit, 1) != seed_of(unit, 2) and seed_of(unit, 1) < 2**48
