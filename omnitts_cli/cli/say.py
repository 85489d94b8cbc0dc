"""omnitts say: speak text. omnitts play: speak live, through the loudspeaker, while the text is still arriving."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from omnitts_cli.cli import sound_out
from omnitts_cli.cli.job import Job, ModelOpener, model_for
from omnitts_cli.cli.sound_out import folder_for_sound
from omnitts_cli.cli.text_in import check_files
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.table import Book, Folder, Live, Results, Speech, TextIn

NO_FOLDER, NO_BOOK = Folder(), Book()
BOOK_FILES = (".epub", ".md", ".markdown")


def say(job: Job, folder: Folder = NO_FOLDER, book: Book = NO_BOOK) -> None:
    """Speak text."""
    if is_book(job.text, job.output, folder, book):
        from omnitts_cli.cli.book import BookCommand  # none of this for other texts

        return BookCommand(job, book).run(folder)
    if folder.output_dir is None:
        return speak(job)
    text, output = job.text, job.output
    sound_out.refuse_one_output(output)
    texts = tuple(replace(text, file=(name,)) for name in text.file) or (text,)
    outputs = tuple(outputs_of(Path(folder.output_dir), texts, output))
    check_files(texts)
    with folder_for_sound(Path(folder.output_dir), needed=not output.dry_run):
        speak(replace(job, text=texts[0], output=outputs[0], takes=outputs, texts=texts, names_outputs=True))


def outputs_of(folder: Path, texts: Sequence[TextIn], output: Results) -> Iterator[Results]:
    """A sound file in the folder for each input, of its name; a name that is taken gets a number.

    Names that differ only by case are one, as on the disks of macOS and Windows.
    """
    taken: set[str] = set()
    for text in texts:
        stem = "speech" if text.file in ((), ("-",)) else Path(text.file[0]).stem
        names = chain([stem], (f"{stem}-{number}" for number in count(2)))
        name = next(one for one in names if one.casefold() not in taken)
        taken.add(name.casefold())
        yield replace(output, output=str(folder / f"{name}.{output.format or 'wav'}"), play=False)


def speak(job: Job) -> None:
    """Speaks in a voice of the model or in a saved voice, which selects its own model."""
    model, variant, saved = model_for(job.speech)
    with job.opened(variant, model, saved) as ready:
        if ready:
            ready.speak(saved or job.speech.voice, job.speech)


def play(job: Job, live: Live) -> None:
    """Speak live: standard input as it arrives, a file, or words. Space pauses, q stops."""
    output = job.output
    if output.audio_device == "list":
        return sound_out.list_speakers()
    if output.play is False:
        raise UsageError("play cannot be used with --no-play", hint="omnitts say --no-play")
    if live.live and live.karaoke:
        raise UsageError("--karaoke cannot be used with --live", hint="leave --live out")
    if output.output == "-":
        raise UsageError("play cannot write to standard output", hint="omnitts say -o -")
    speak(replace(job, output=replace(output, play=True), live=live.live, karaoke=live.karaoke))


def is_book(text: TextIn, output: Results, folder: Folder, book: Book) -> bool:
    """Whether chapters or several voices are wanted. An EPUB file is always a book."""
    target, names = (output.output or "").lower(), [name.lower() for name in text.file]
    m4b = target.endswith(".m4b") and output.format is None
    if not names:
        return book != NO_BOOK or m4b
    epubs = [text.input_format == "epub" or name.endswith(".epub") for name in names]
    if any(epubs) and folder.output_dir is not None and len(names) > 1:
        raise UsageError(
            "with --output-dir, a book becomes one file per chapter, so it must be the only -f",
            hint=f"omnitts say -f {next(name for name, epub in zip(text.file, epubs, strict=True) if epub)} -O DIR",
        )
    files = any(name.endswith(BOOK_FILES) or text.input_format == "md" for name in names)
    return book != NO_BOOK or any(epubs) or m4b or (target.endswith(".opus") and files)


def preview(name: str, speech: Speech, output: Results, opener: ModelOpener, text: str) -> None:
    """Speak a sample sentence in a voice."""
    if output.output is None and output.play is None and not output.dry_run:
        output = replace(output, play=True)  # a preview is heard; it leaves no file unasked
    say(Job("say", [text], TextIn(), replace(speech, voice=name), output, opener))
