"""omnitts say for a book or a dialogue: chapters, several voices, one file or a file for each chapter."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from omnitts_cli.audio.encode import M4A, SoundFormat
from omnitts_cli.audio.sinks import Sink
from omnitts_cli.audio.target import is_special, without_separators
from omnitts_cli.books.cache import UnitCache, default_folder
from omnitts_cli.books.cast import Cast, read_cast
from omnitts_cli.books.job import BookJob, BookPace, BookResult, Chapter
from omnitts_cli.books.m4b import SUFFIX, M4bSink, chapter_rows, read_cover
from omnitts_cli.books.marks import Marks
from omnitts_cli.books.reader import chosen, read_book
from omnitts_cli.cli import length, sound_out
from omnitts_cli.cli.job import Job
from omnitts_cli.cli.sound_out import folder_for_sound
from omnitts_cli.cli.text_in import as_meant, as_utf8, check_sources, opened
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.table import Book, Folder, Machine, Results
from omnitts_cli.speech.tts import TTS
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration, estimate
from omnitts_cli.terminal.signals import Stopped, held
from omnitts_cli.text.formats.block import LARGEST_DOCUMENT, Document
from omnitts_cli.weights.find import sample_rate


@dataclass(frozen=True)
class BookCommand:
    """`say` for a book or a dialogue."""

    asked: Job
    book: Book

    def run(self, folder: Folder) -> None:
        self.refuse_contradictions(folder)
        read = [name for name in (self.book.cast, self.book.cover) if name]
        sound_out.refuse_overwriting(self.asked.output, (*self.asked.text.file, *self.asked.text.lexicon, *read))
        cast = read_cast(self.book.cast) if self.book.cast else Cast(tags=self.book.dialogue)
        cast.check_style(self.asked.speech.style)
        document = self.document(lines=cast.lines)
        chapters = chosen(document.sections, self.book.chapters)
        marks = self.marks(document)
        known = {**self.asked.opener.settings, "patient": True, "fixed_chunks": True}
        if "first_chunk" in known and known["first_chunk"] == Machine.first_chunk:
            known |= {"first_chunk": BOOK_CHUNK, "chunk": BOOK_CHUNK}
        with ExitStack() as closing:
            progress = closing.enter_context(Progress("speaking", self.asked.opener.messages.progress))
            job = BookJob(
                chapters, cast, self.asked.text, self.asked.speech, known, language=document.language,
                subtype=self.asked.output.subtype, chapter_gap_s=self.book.chapter_gap / 1000, tell=console.notice,
                look=partial(tell_pace, progress),
            )  # fmt: skip
            planned = self.planned(job)
            if self.only_lists:
                return list_chapters(document, planned)
            cache = UnitCache(Path(self.book.work) if self.book.work else default_folder())
            closing.callback(cache.close)
            with held():
                place = self.place(folder, sample_rate(*job.first_model(planned)), cache.work, marks, planned, closing)
                closing.callback(place.discard)
            subs = self.subtitles(job)
            if subs:
                closing.callback(subs.discard)

            def open_model(name: str, variant: str, voice: str | None) -> AbstractContextManager[TTS]:
                return self.asked.opener.model(name, variant, voice=voice, **known)

            try:
                result = job.run(planned, cache, open_model, place)
                marks.chapters = result.marks
                with held():
                    place.finish()
            except Stopped as stopped:
                stopped.word += "; finished parts are kept, and the same command continues"
                raise
            if subs:
                subs.write_times(result.sentences)
        report_book(place, result, document)

    @property
    def only_lists(self) -> bool:
        """Whether nothing is spoken."""
        return self.book.list_chapters or self.asked.output.dry_run

    def planned(self, job: BookJob) -> list[Chapter]:
        """The chapters in units. A very long book is asked about first, as it also takes long to split."""
        if self.only_lists:
            return job.plan()
        seconds = sum(length.seconds_of_blocks(section.blocks) for _, section in job.chapters)
        length.confirm(seconds / self.asked.speech.speed, self.asked.output.max_hours, self.asked.opener.messages)
        planned = job.plan()
        seconds = sum(chapter.expected_s for chapter in planned)
        length.tell(seconds / self.asked.speech.speed, f"{counted_chapters(planned)}, ")
        return planned

    def place(
        self, folder: Folder, rate: int, work: Path, marks: Marks, chapters: list[Chapter], closing: ExitStack
    ) -> "BookPlace | ChapterFiles":
        """Where the sound goes. A folder is removed again if nothing gets into it."""
        if folder.output_dir is None:
            return BookPlace(self.asked.output, rate, work, marks)
        closing.enter_context(folder_for_sound(Path(folder.output_dir)))
        return ChapterFiles(Path(folder.output_dir), self.asked.output, rate, marks, chapters[-1].number)

    def subtitles(self, job: BookJob) -> sound_out.SubtitleFiles | None:
        """The files of --subs. With --subs-by words, the job also finds the times of words."""
        if not self.asked.output.subs:
            return None
        language = self.asked.speech.language if self.asked.speech.language != "auto" else job.book_language() or "auto"
        subs = sound_out.SubtitleFiles(self.asked.output, language, offline=self.asked.opener.network.offline)
        job.times = subs.timed.times if subs.timed else None
        return subs

    def refuse_contradictions(self, folder: Folder) -> None:
        if folder.output_dir:
            sound_out.refuse_one_output(self.asked.output)
        if self.asked.output.codes:
            raise UsageError("--codes cannot be used with a book or a cast", hint="leave --codes out")
        if self.asked.output.via not in ("auto", "off"):
            raise UsageError(f"a book cannot be used with --via {self.asked.output.via}", hint="--via off")
        if self.book.cast and self.book.dialogue:
            raise UsageError("--dialogue has no effect with --cast", hint="leave --dialogue out")

    def document(self, *, lines: bool) -> Document:
        words, text = as_meant(self.asked.words, self.asked.text)
        if words and text.file:
            raise UsageError("a book cannot have words before its files", hint="-f introduction.txt -f BOOK")
        check_sources(words, text, "say")

        def sources() -> Iterator[tuple[str, bytes]]:
            for name in text.file or ("-",):
                with opened(name) as file:
                    yield name, file.read(LARGEST_DOCUMENT + 1)

        given = iter([("", as_utf8(" ".join(words)).encode())]) if words else sources()
        found = read_book(given, text.input_format, text.encoding, self.book.chapter_level, lines=lines)
        for notice in found.notices:
            console.warning(notice)
        return found

    def marks(self, document: Document) -> Marks:
        """What the file will say about the book."""
        title, author = self.book.title or document.title, self.book.author or document.author
        tags = {"title": title, "album": title, "artist": author, "album_artist": author, "genre": "Audiobook"}
        return Marks([], tags, read_cover(self.book.cover) if self.book.cover else document.cover)


BOOK_CHUNK = 25  # frames; nothing waits for the first sound


class BookPlace:
    """The output of a book: a file with chapter marks, if its format has them, or what `say` writes to otherwise."""

    def __init__(self, output: Results, rate: int, work: Path, marks: Marks) -> None:
        self.stage = self._marked(output, rate, work, marks) or sound_out.open_stage(output, rate)
        self.path = self.stage.path
        m4b = self.path is not None and self.path.suffix.lower() == SUFFIX and output.format is None
        self.format = "m4b" if m4b else self.stage.form.name

    @staticmethod
    def _marked(output: Results, rate: int, work: Path, marks: Marks) -> sound_out.Stage | None:
        path = Path(output.output or "-")
        if path.suffix.lower() in (SUFFIX, ".m4a") and output.format is None:  # both hold AAC and chapters
            if output.play:
                raise UsageError("use either --play or an .m4b file, not both", hint="leave --play out")
            form = SoundFormat(M4A, rate)
            sink: Sink = M4bSink(path, rate, form, marks, work, no_clobber=output.no_clobber)
        elif path == Path("-") or output.play or is_special(path):
            return None
        else:
            form = sound_out.chosen_format(output, rate)
            sink = sound_out.file_sink(path, form, rate, no_clobber=output.no_clobber, marks=marks)
        return sound_out.Stage(sink, form, rate, path)

    def begin(self, rate: int) -> None:
        sound_out.require_rate(self.stage.rate, rate)

    def chapter(self, number: int, title: str, at: int) -> None:
        """A chapter begins. The marks say so at the end."""

    def write(self, samples: np.ndarray) -> None:
        with held():
            self.stage.sink.write(samples)

    def finish(self) -> None:
        self.stage.sink.finish()
        for notice in self.stage.sink.notices:
            console.warning(notice)

    def discard(self) -> None:
        self.stage.sink.discard()


class ChapterFiles:
    """The output of a book with --output-dir: a file for each chapter, complete or not at all."""

    def __init__(self, folder: Path, output: Results, rate: int, marks: Marks, last: int) -> None:
        self.path, self._output, self._marks, self._last = folder, output, marks, last
        self.form = sound_out.chosen_format(output, rate)
        self.format = self.form.name
        self._begins: list[tuple[int, Path, Marks]] = []  # chapters to come: first sample, file, tags
        self._sink: Sink | None = None
        self._rate, self._written = rate, 0
        if output.play:
            raise UsageError("use either --play or --output-dir, not both", hint="leave --play out")

    def begin(self, rate: int) -> None:
        sound_out.require_rate(self._rate, rate)

    def chapter(self, number: int, title: str, at: int) -> None:
        name = f"{number:0{max(2, len(str(self._last)))}} {without_separators(title)}".strip()
        tags = {**self._marks.tags, "title": title, "track": f"{number}/{self._last}"}
        path = self.path / f"{name}{self.form.suffix}"
        self._begins.append((at, path, Marks([], tags, self._marks.cover)))

    def write(self, samples: np.ndarray) -> None:
        with held():
            while self._begins and self._begins[0][0] < self._written + samples.size:
                at, path, marks = self._begins.pop(0)
                self._write(samples[: at - self._written])
                samples = samples[at - self._written :]
                self._written = at
                self.finish()
                self._open(path, marks)
            self._write(samples)
            self._written += samples.size

    def _write(self, samples: np.ndarray) -> None:
        if self._sink is not None and samples.size:
            self._sink.write(samples)

    def _open(self, path: Path, marks: Marks) -> None:
        self._sink = sound_out.file_sink(path, self.form, self._rate, no_clobber=self._output.no_clobber, marks=marks)
        self._name = path

    def finish(self) -> None:
        """Puts the file of the chapter in place."""
        if self._sink is not None:
            sink, self._sink = self._sink, None
            sink.finish()
            for notice in sink.notices:
                console.warning(notice)
            console.result(str(self._name))

    def discard(self) -> None:
        if self._sink is not None:
            self._sink.discard()


def tell_pace(progress: Progress, pace: BookPace) -> None:
    """The progress line of a book."""
    share = pace.done_chars / pace.chars if pace.chars else 1.0
    speed = pace.spoken_s / pace.wall_s
    left = pace.wall_s * (1 - share) / share if share and pace.wall_s > sound_out.STEADY_S else None
    words = f"chapter {pace.chapter} of {pace.chapters}  audio {duration(pace.spoken_s)}  {speed:.1f}× realtime"
    progress.update(
        share, words + (f"  eta {duration(left)}" if left is not None else ""), chapter=pace.chapter,
        chapters=pace.chapters, audio_s=round(pace.spoken_s, 1), speed_x=round(speed, 2),
        eta_s=None if left is None else round(left, 1),
    )  # fmt: skip


def list_chapters(document: Document, chapters: list[Chapter]) -> None:
    """--list-chapters"""
    console.table([[str(one.number), duration(one.expected_s), one.title] for one in chapters])
    for one in chapters:
        console.record(
            status="ok", command="say", chapter=one.number, title=one.title, chars=one.chars,
            expected_s=round(one.expected_s, 1),
        )  # fmt: skip
    seconds = sum(one.expected_s for one in chapters)
    name = f"{document.title}: " if document.title else ""
    console.note(f"{name}{counted_chapters(chapters)}, {estimate(seconds)}")


def counted_chapters(chapters: Sequence[object]) -> str:
    return f"{len(chapters)} chapter{'s' * (len(chapters) != 1)}"


def report_book(place: BookPlace | ChapterFiles, result: BookResult, document: Document) -> None:
    console.report_repeats()
    speed = result.spoken_s / result.wall_s if result.wall_s else 0.0
    console.record(
        status="ok", command="say", output=str(place.path) if place.path else None, format=place.format,
        sample_rate=result.rate, audio_s=round(result.seconds, 3), wall_s=round(result.wall_s, 3), units=result.units,
        spoken=result.spoken, spoken_s=round(result.spoken_s, 3), speed_x=round(speed, 2), title=document.title,
        models=result.models, chapters=chapter_rows(result.marks), warnings=console.warnings,
    )  # fmt: skip
    where = f" in {place.path}" if place.path else ""
    kept = result.units - result.spoken
    line = f"{duration(result.seconds)} of speech, {counted_chapters(result.marks)}{where}"
    console.note(
        line + (f"; {kept} of {result.units} parts reused from an earlier run" if kept and result.units > 1 else "")
    )
