"""Splits arriving text into pieces that can be spoken, in one pass, with the same result however the text was cut.

A finished line never waits for the next one: the text of the line alone decides. A piece has a
largest width, counted in columns (a CJK character fills two), and is cut at the best place before it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from omnitts_cli.text.abbreviations import rules_for
from omnitts_cli.text.boundary import CJK, CLOSERS, GERMAN_CLOSERS, STOPS, WIDE, ends_sentence
from omnitts_cli.text.clean import has_speech
from omnitts_cli.text.language import detect
from omnitts_cli.text.pattern import WidePattern
from omnitts_cli.text.phrases import best_place
from omnitts_cli.text.piece import Break, Piece

Mode = Literal["auto", "line", "paragraph", "none"]
MODES: tuple[Mode, ...] = ("auto", "line", "paragraph", "none")

WRAPPED_COLUMNS = 50
"""A line of at least this width without a stop at its end was wrapped: the sentence continues on the next line."""

LARGEST_COLUMNS = {"auto": 400, "line": 800, "paragraph": 800}
SHORT_COLUMNS = 12
"""A sentence no wider than this is spoken with the next one on its line: models stumble over `Oh.` alone."""

LONGEST_PAUSE_S = 60.0
NEXT_WORD = 24
LONGEST_GAP = 64

EVENT = re.compile(rf"[{re.escape(STOPS)}\n]|\[(?=[pv]|\Z)")
STOP_RUN = re.compile(
    rf"([{re.escape(STOPS)}]{{1,64}}(?: \.(?!\w)){{0,8}})"  # also `. . .`
    rf"((?:[{re.escape(CLOSERS)}]| »(?!\w)|[{GERMAN_CLOSERS}](?!\w)){{0,16}})"
)
PAUSE = re.compile(r"\[pause:(\d{1,6}(?:\.\d{1,6})?)(ms|s)?\]")
PAUSE_LONGEST = 24
VOICE = re.compile(r"\[voice:[^\]\n]{1,60}\]")
BLANKS = re.compile(r"[ \t]*")
WIDE_CHARACTER = WidePattern(f"[{WIDE}]")
WHOLE_WORD = re.compile(r"\W*\w+\W")
LIST_ITEM = re.compile(r"[ \t]*(?:[-*•–—+>]|\d{1,3}[.)])[ \t]")
LIST_ITEM_LONGEST = 40
HEAD_IS_KNOWN = re.compile(r"\n|\S[ \t]+\S")
BETTER_CUTS = (re.compile("[;；:：—–](?=[ \n]|[^ -~])|[；：]"), re.compile("[,，、､](?! ?\\d)"))
ENTRY_STARTS = {
    "hash": re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,40}\Z"),
    "number": re.compile(r"[\[(]?\d"),
    "label": re.compile(r"[\w.-]{1,24}(?:\([^()]{0,40}\))?!?:\Z"),
    "bracket": re.compile(r"\[\w"),
    "capital": re.compile(r"[\"'“‘]?[A-Z]"),
}
NEVER_LAST = frozenset(
    "the a an of to in for and or by with from as at on is are was were be been his her their its our my your that "
    "which who this these those but than into not no if when where while because mr mrs ms dr st prof".split()
)
CJK_NEWLINE = WidePattern(rf"(?<={CJK.pattern})[ \t]*\n[ \t]*(?={CJK.pattern})")


class Splitter:
    """`feed` text (clean, `\\n` line ends), take the pieces that are certain; `flush` at the end."""

    def __init__(
        self,
        mode: Mode = "auto",
        language: str | None = None,
        *,
        largest: int | None = None,
        short: int = SHORT_COLUMNS,
        pauses: bool = True,
        notices: list[str] | None = None,
    ) -> None:
        self.mode = mode
        self._notices = [] if notices is None else notices  # about requests in the text that have no effect
        self._rules = rules_for(language)
        self._largest = largest or LARGEST_COLUMNS.get(mode, 0)
        self._short = short if mode == "auto" else 0
        self._pauses = pauses
        self._voice_noticed = False
        self._text = ""  # not yet split off; `_base` characters before it were dropped
        self._base = 0
        self._start = self._scan = 0  # in _text: of the open piece, and of the text not yet scanned
        self._soft = 0  # the last sentence end inside the open piece, where it may be cut
        self._gap: Break = "none"
        self._line_start = 0  # in _text
        self._line_columns = 0  # of the part of this line that was dropped
        self._line_inked = False  # whether that part had anything but blanks
        self._wrapped = False  # the open piece continues after a line end
        self._entry = ""  # how the line above begins, where it could be one entry of a list or a log
        self._paragraph = 0
        self._spoken = False
        self._ready: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain after this text."""
        self._text += text
        return self._advance(final=False)

    def flush(self, text: str = "") -> list[Piece]:
        """The rest, and the last of the text. The splitter can go on with a new paragraph afterwards."""
        self._text += text
        self._advance_into_ready(final=True)
        self._close(len(self._text), "paragraph")
        self._new_line(len(self._text))
        return self._take()

    def idle(self) -> list[Piece]:
        """For a pipe in which nothing arrives: the rest of a finished line, although its sentence could continue."""
        if self._wrapped and self._line_start == len(self._text):
            self._close(len(self._text), "sentence")
            self._wrapped = False
        return self._take()

    def pause(self, seconds: float) -> list[Piece]:
        """Ends the open piece and adds silence after it."""
        pieces = self._advance(final=True)
        self._close(len(self._text), "none")
        self._pause(seconds, len(self._text), len(self._text))
        return pieces + self._take()

    # -- the one pass

    def _advance(self, final: bool) -> list[Piece]:
        self._advance_into_ready(final)
        return self._take()

    def _advance_into_ready(self, final: bool) -> None:
        while self._step(final):
            pass

    def _take(self) -> list[Piece]:
        """Returns the pieces and drops their text; once per call, so that the work stays linear."""
        gone = self._start
        if gone > self._line_start:
            self._line_columns += columns(self._text, self._line_start, gone)
            self._line_inked |= bool(self._text[self._line_start : gone].strip())
            self._line_start = gone
        self._text = self._text[gone:]
        self._base += gone
        self._start, self._scan, self._line_start = 0, self._scan - gone, self._line_start - gone
        self._soft = max(0, self._soft - gone)
        ready, self._ready = self._ready, []
        return ready

    def _step(self, final: bool) -> bool:
        """Examines the next place where a piece may end; False if more text is needed to decide."""
        if self._wrapped and self._line_start == self._scan and not self._continue_line(final):
            return False
        found = EVENT.search(self._text, self._scan, self._start + self._largest // 2)
        limit = len(self._text)
        if found is None:
            limit = self._limit()
            found = EVENT.search(self._text, self._scan, limit)
        if found is None and limit < len(self._text):
            self._cut(limit)
            return True
        if found is None:
            self._scan = len(self._text)
            return False
        at = found.start()
        if found[0] == "\n":
            self._line_end(at)
            return True
        if found[0] == "[":
            return self._bracket(at, final)
        return self._stop(at, final)

    def _limit(self) -> int:
        """Where the open piece reaches its largest width; the end of the text where that is nearer."""
        if self.mode == "none":
            return len(self._text)
        end = min(len(self._text), self._start + self._largest)
        if self._text.isascii():
            return end
        wide = WIDE_CHARACTER.search(self._text, self._start, end)
        if wide is None or end - self._start <= self._largest // 2:
            return end
        columns = wide.start() - self._start
        for at in range(wide.start(), end):
            columns += 2 if WIDE_CHARACTER.match(self._text, at) else 1
            if columns > self._largest:
                return at
        return end

    # -- stops

    def _stop(self, at: int, final: bool) -> bool:
        """A full stop or its like. Waits until its closers and the next word have arrived."""
        run = STOP_RUN.match(self._text, at)
        assert run is not None
        blank = BLANKS.match(self._text, run.end(), run.end() + LONGEST_GAP)
        assert blank is not None
        following = blank.end()
        if not final and not self._seen(run.end(), following):
            return False
        line_ends = following >= len(self._text) or self._text[following] == "\n"
        self._scan = run.end()
        if self.mode == "none" or (line_ends and self.mode != "paragraph" and following < len(self._text)):
            return True  # the line's end decides
        after = "" if line_ends else self._text[following : following + NEXT_WORD].split("\n", 1)[0]
        before = self._text[max(self._start, at - 400) : at]
        if ends_sentence(before, run[1], run[2], following == run.end() and not line_ends, after, self._rules):
            self._sentence_end(run.end())
        return True

    def _seen(self, run_end: int, following: int) -> bool:
        """Whether enough has arrived after a stop: a line end, or a whole word."""
        if following - run_end >= LONGEST_GAP:
            return True
        word = self._text[following : following + NEXT_WORD]
        if "\n" in word or len(word) == NEXT_WORD:
            return True
        return word[:1].isdigit() or bool(CJK.match(word)) or bool(WHOLE_WORD.match(word))

    def _sentence_end(self, end: int) -> None:
        if self.mode == "auto" and columns(self._text, self._start, end) > self._short:
            self._close(end, "sentence")
        else:
            self._soft = end

    # -- lines

    def _line_end(self, at: int) -> None:
        self._scan = at + 1
        line = self._text[max(self._line_start, self._start) : at]
        if self.mode == "none":
            pass
        elif not self._line_inked and not self._text[self._line_start : at].strip():
            self._close(at + 1, "paragraph")
        elif self.mode == "paragraph" or (self.mode == "auto" and self._goes_on(line, at)):
            self._wrapped = True
            first, last = sorted((self._start, self._line_start))  # another piece of the line, or another line
            whole = not self._line_inked and not self._text[first:last].strip()
            self._entry = open_entry(line) if whole and self.mode == "auto" else ""
            if self.mode == "paragraph" and self._stopped(line):
                self._soft = at + 1
        else:
            self._close(at + 1, "sentence")
        self._new_line(at + 1)

    def _new_line(self, start: int) -> None:
        self._line_start, self._line_columns, self._line_inked = start, 0, False

    def _goes_on(self, line: str, at: int) -> bool:
        """Whether a line was only broken to fit a page."""
        width = self._line_columns + columns(self._text, self._line_start, at)
        return width >= WRAPPED_COLUMNS and not self._stopped(line)

    def _stopped(self, line: str) -> bool:
        """Whether a line ends with a sentence."""
        quoted = line.rstrip()[-LONGEST_GAP:]
        stopped = quoted.rstrip(CLOSERS + GERMAN_CLOSERS)
        before = stopped.rstrip(STOPS)
        stops, closers = stopped[len(before) :], quoted[len(stopped) :]
        return bool(stops) and ends_sentence(before, stops, closers, False, "", self._rules)

    def _continue_line(self, final: bool) -> bool:
        """At the start of the line below a broken one: an entry of a list or a log begins a piece of its own."""
        head = self._text[self._line_start : self._line_start + LIST_ITEM_LONGEST]
        if not final and len(head) < LIST_ITEM_LONGEST and not HEAD_IS_KNOWN.search(head):
            return False
        if self.mode == "auto" and (LIST_ITEM.match(head) or (self._entry and self._entry == entry_start(head))):
            self._close(self._line_start, "sentence")
        self._wrapped = False
        return True

    # -- pauses

    def _bracket(self, at: int, final: bool) -> bool:
        if self._pauses:
            mark = PAUSE.match(self._text, at)
            if mark:
                self._close(at, "none")
                seconds = float(mark[1]) / (1000.0 if mark[2] == "ms" else 1.0)
                if seconds > LONGEST_PAUSE_S:
                    self._notices.append(f"{mark[0]} is cut to {LONGEST_PAUSE_S:g} s, the longest pause")
                self._pause(min(seconds, LONGEST_PAUSE_S), at, mark.end())
                self._start = self._scan = self._soft = mark.end()
                return True
            if (tag := VOICE.match(self._text, at)) and not self._voice_noticed:
                self._voice_noticed = True
                self._notices.append(
                    f"{tag[0]} is spoken as it stands; omnitts say --dialogue switches voices at such tags"
                )
            rest = self._text[at : at + PAUSE_LONGEST]
            if not final and len(rest) < PAUSE_LONGEST and could_be_pause(rest):
                return False
        self._scan = at + 1
        return True

    def _pause(self, seconds: float, start: int, end: int) -> None:
        if seconds > 0.0:
            self._ready.append(Piece("", self._base + start, self._base + end, self._paragraph, "none", seconds))
        self._gap = "none"

    # -- ends

    def _cut(self, limit: int) -> None:
        """The open piece is as wide as may be: cut it at its best place, the last sentence end first."""
        if self._soft > self._start:
            self._close(self._soft, "sentence")
            return
        self._close(best_cut(self._text, self._start, limit), "none", goes_on=True)

    def _close(self, end: int, gap: Break, goes_on: bool = False) -> None:
        """Ends the open piece at `end`; `gap` is the break in front of the next one."""
        raw = self._text[self._start : end]
        text = spoken_form(raw, self.mode)
        if has_speech(text):
            left = self._base + self._start + len(raw) - len(raw.lstrip())
            right = self._base + self._start + len(raw.rstrip())
            self._ready.append(Piece(text, left, right, self._paragraph, self._gap, goes_on=goes_on))
            self._gap, self._spoken = gap, True
        elif self._gap == "none" or gap == "paragraph":
            self._gap = gap if self._spoken else "none"
        if gap == "paragraph" and self._spoken:
            self._paragraph += 1
            self._spoken = False
        self._start = self._soft = end
        self._scan = max(self._scan, end)
        if gap != "none":
            self._wrapped = False


def open_entry(line: str) -> str:
    """How a whole line begins, where the next one may be another entry of the same list or log.

    A capital letter says so only in English, whose nouns do not have one; and only where the line does not end with a
    word that something must follow.
    """
    start = entry_start(line)
    if start == "capital" and (not may_end_an_entry(line) or detect(line).language != "en"):
        return ""
    return start


def entry_start(line: str) -> str:
    """How a line begins: two successive lines that both begin with a hash, a number or a label are two entries."""
    first = next(iter(line.split(None, 1)), "")
    for name, form in ENTRY_STARTS.items():
        if form.match(first):
            return name
    return ""


def may_end_an_entry(line: str) -> bool:
    last = next(iter(line.rsplit(None, 1)[-1:]), "")
    return not last.endswith((",", "-", "–", "—", "(")) and last.lower().rstrip(".") not in NEVER_LAST


def could_be_pause(text: str) -> bool:
    """Whether more characters could make a pause mark of these."""
    whole = "[pause:"
    return whole.startswith(text) or (text.startswith(whole) and bool(re.fullmatch(r"[\d.]*m?s?", text[len(whole) :])))


def columns(text: str, start: int, end: int) -> int:
    """The width of a part of the text, a CJK character counting two."""
    return end - start + (0 if text.isascii() else len(WIDE_CHARACTER.findall(text, start, end)))


def best_cut(text: str, start: int, limit: int) -> int:
    """The place to cut an over-long sentence: after a semicolon, else a comma, else a phrase, else at the limit."""
    half = start + (limit - start) // 2
    for better in BETTER_CUTS:
        places = [found.end() for found in better.finditer(text, half, limit)]
        if places:
            return places[-1]
    return half + place if (place := best_place(text[half:limit])) else limit


def spoken_form(raw: str, mode: Mode) -> str:
    """The text as it is spoken: one line, single spaces; as it was written where nothing is split."""
    if mode == "none":
        return raw.strip()
    return " ".join((CJK_NEWLINE.sub("", raw) if "\n" in raw else raw).split())


def split(text: str | Iterable[str], mode: Mode = "auto", language: str | None = None) -> Iterator[Piece]:
    """The pieces of a clean text, or of its parts as they arrive."""
    splitter = Splitter(mode, language)
    for part in [text] if isinstance(text, str) else text:
        yield from splitter.feed(part)
    yield from splitter.flush()
