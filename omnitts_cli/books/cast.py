"""Cast: who speaks which words of a dialogue. `[voice: NAME]` switches the voice; with a cast, lines such as
`ANNA: words` do too.

    {"ANNA": {"voice": "clara"}, "BEN": {"ref_audio": "ben.wav"}, "NARRATOR": {"description": "a deep, slow man"}}
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnitts_cli import files
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.fleet.rows import VoiceChoice, settings
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.settings.setting import nearest
from omnitts_cli.text.clean import safe_for_terminal
from omnitts_cli.text.formats.block import Block

LARGEST_CAST = 1 << 20
MOST_MEMBERS = 1000
FIELDS = ("voice", "ref_audio", "ref_text", "description", "style", "speed", "seed", "language", "model")
ALIASES = {"instruct": "style", "instructions": "style", "lang": "language", "ref": "ref_audio"}
CHECKED = ("style", "speed", "seed", "language", "model")
TAG = re.compile(r"\[voice:[ \t]*([^\]\n]{0,100})\]", re.IGNORECASE)
LINE = re.compile(r"[ \t]*[*_]{0,3}(?P<name>\w[\w .'’-]{0,40}?)[*_]{0,3}[ \t]*:[*_]{0,3}(?:[ \t]+|$)")
CAPITALS = re.compile(r"[^a-z]*[A-Z][^a-z]*")
BACK = ("", "default", "narrator")
"""Names that go back to the command's own voice, unless the cast has them."""


OWN = VoiceChoice()  # the command's own voice


@dataclass(frozen=True)
class Member:
    """One voice of a book. None: the command's option."""

    name: str = ""
    speaker: VoiceChoice = OWN
    style: str | None = None
    speed: float | None = None
    seed: int | None = None
    language: str | None = None
    model: str | None = None

    @property
    def takes_no_style(self) -> str:
        """Why no model can give this voice a style: it is `described` or `cloned`; "" if it may."""
        return {"design": "described", "clip": "cloned"}.get(self.speaker.kind, "")


@dataclass(frozen=True)
class CastWords:
    """A paragraph, or a part of one, in one voice."""

    member: Member
    block: Block


@dataclass
class Cast:
    """The members by name. `tags`: whether `[voice: NAME]` switches the voice; `lines`: whether `ANNA: words` does."""

    members: Mapping[str, Member] = field(default_factory=dict)
    path: str = ""
    lines: bool = False
    tags: bool = True
    is_voice: Callable[[str], bool] = lambda name: False
    """Whether there is a voice of that name, which a tag may name although the cast has no such character."""

    def __post_init__(self) -> None:
        self._by_name = {name.casefold(): member for name, member in self.members.items()}
        self._own: dict[str, Member] = {}  # voices that were named without a cast

    def member(self, name: str, where: str, *, voices: bool = True) -> Member:
        """The member of that name. With `voices`, a voice of the model or a saved one if the cast has no such name."""
        name = " ".join(name.split())
        found = self._by_name.get(name.casefold())
        if found is None and name.casefold() in BACK:
            return self._by_name.get("narrator", DEFAULT)
        if found is None and self.members and not (voices and self.is_voice(name)):
            raise self._unknown(name, where)
        return found or self._own.setdefault(name, Member(name, VoiceChoice("voice", name)))

    def _unknown(self, name: str, where: str) -> InputError:
        close = nearest(name.casefold(), list(self._by_name))
        closest = next((known for known in self.members if known.casefold() == close), None)
        return InputError(
            f"{where}: '{safe_for_terminal(name, 60)}' is not in the cast {self.path}",
            cause=f"it has {', '.join(self.members)}",
            hint=f"{closest} in its place, or add it to {self.path}" if closest else f"add it to {self.path}",
        )

    def check_style(self, style: str | None) -> None:
        """Raises if --style would apply to a member that takes none."""
        for member in self.members.values() if (style or "").strip() else ():
            if member.takes_no_style and member.style is None:
                raise UsageError(
                    f"--style does not work with {member.name}, a {member.takes_no_style} voice of {self.path}",
                    hint=f'leave --style out; a named voice can have a "style" in {self.path}',
                )

    def words(self, blocks: Iterable[Block], where: str) -> Iterator[CastWords]:
        """The blocks with their speakers. A tag counts until the next one; a name, until the end of its paragraph."""
        current = self._by_name.get("narrator", DEFAULT)
        if not self.tags:  # brackets are words
            yield from (CastWords(current, block) for block in blocks)
            return
        for block in blocks:
            speaker = current
            for line in split_lines(block, self.lines):
                named = LINE.match(line) if self.lines and not block.level else None
                if named and self._is_name(named["name"]):
                    speaker = self.member(named["name"], where, voices=False)
                    line = line[named.end() :]
                place = 0
                for tag in TAG.finditer(line):
                    yield from in_voice(speaker, block, line[place : tag.start()])
                    current = speaker = self.member(tag[1], where)
                    place = tag.end()
                yield from in_voice(speaker, block, line[place:])
            if block.pause_s:
                yield CastWords(speaker, block)

    def _is_name(self, name: str) -> bool:
        """Whether the words before a colon are a character. Unknown ones are recognised by their capitals."""
        return name.casefold() in self._by_name or CAPITALS.fullmatch(name) is not None


DEFAULT = Member()


def split_lines(block: Block, lines: bool) -> Iterator[str]:
    """The lines of a block that may begin with a name; what follows such a line belongs to it."""
    if not lines:
        yield block.text
        return
    held: list[str] = []
    for line in block.text.split("\n"):
        if held and LINE.match(line):
            yield "\n".join(held)
            held = []
        held.append(line)
    yield "\n".join(held)


def in_voice(member: Member, block: Block, text: str) -> Iterator[CastWords]:
    if text.strip():
        yield CastWords(member, Block(text.strip(), level=block.level))


def read_cast(path: str) -> Cast:
    """The cast of a JSON file; everything in it is checked except what only a model knows."""
    try:
        data = files.read(path, LARGEST_CAST, pipes=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read cast {path}: {reason}", hint=f"ls -l {path}") from None
    try:
        table = json_object(data)
    except ParseError as error:
        raise InputError(f"cast {path} {error}", hint=EXAMPLE) from None
    if not table or len(table) > MOST_MEMBERS:
        raise InputError(f"cast {path} is not an object of at most {MOST_MEMBERS} names", hint=EXAMPLE)
    folder = Path(path).parent
    members = {}
    for name, values in table.items():
        try:
            members[" ".join(name.split())] = member_of(name, values, folder)
        except ValueError as error:
            what, hint = (*error.args, EXAMPLE)[:2]
            raise InputError(f"cast {path}: {safe_for_terminal(name, 60)}: {what}", hint=hint) from None
    return Cast(members, path, lines=True)


EXAMPLE = '{"ANNA": {"voice": "clara"}, "BEN": {"ref_audio": "ben.wav"}}'


def member_of(name: str, values: Any, folder: Path) -> Member:
    """One entry of a cast; a plain string is a voice's name. ValueError, perhaps with a hint, if it is unusable."""
    values = {"voice": values} if isinstance(values, str) else values
    if not isinstance(values, dict):
        raise ValueError("the entry is neither an object nor a voice")
    given: dict[str, Any] = {}
    for key, value in values.items():
        known = ALIASES.get(key, key)
        if known not in FIELDS:
            close = nearest(key, list(FIELDS))
            raise ValueError(f"unknown field '{key[:40]}'" + (f"; did you mean '{close}'?" if close else ""))
        given[known] = value
    for key in CHECKED:
        if key in given and not settings()[key].accepts(given[key]):
            raise ValueError(f"{key} {given[key]!r:.60} is not {settings()[key].kind.words}")
    rest = {key: given[key] for key in CHECKED if key in given}
    member = Member(name, speaker_of(given, folder), **rest)
    if member.takes_no_style and (member.style or "").strip():
        if "description" in given:
            hint = json.dumps({"description": f"{given['description']}, {member.style}"}, ensure_ascii=False)
        else:
            hint = 'leave "style" out, or give the character a voice of the model'
        raise ValueError(f"style does not work with a {member.takes_no_style} voice", safe_for_terminal(hint, 200))
    return member


def speaker_of(given: Mapping[str, Any], folder: Path) -> VoiceChoice:
    kinds = [key for key in ("voice", "ref_audio", "description") if key in given]
    if len(kinds) > 1:
        raise ValueError(f"has both {kinds[0]} and {kinds[1]}")
    if "ref_text" in given and kinds != ["ref_audio"]:
        raise ValueError("ref_text needs ref_audio")
    if not kinds:
        return VoiceChoice()
    value = given[kinds[0]]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{kinds[0]} is not text")
    if kinds == ["description"]:
        return VoiceChoice("design", value)
    if kinds == ["voice"]:
        return VoiceChoice("voice", str(folder / value) if value.endswith(".voice") else value)
    words = given.get("ref_text")
    if words is not None and not (isinstance(words, str) and words.strip()):
        raise ValueError("ref_text is empty or not text")
    clip = folder / value
    if not clip.is_file():
        raise ValueError(f"clip {clip} does not exist")
    return VoiceChoice("clip", str(clip), words)
