"""Encoded sound into an mp4 file with chapters, tags and a cover, by ffmpeg. `audio/pyav.py` does the same by PyAV."""

import subprocess
import tempfile
from pathlib import Path

from omnitts_cli.audio.aac import last_words
from omnitts_cli.audio.pyav import MediaError
from omnitts_cli.books.marks import Marks

MUX_S = 3600.0


def mux(program: str, sound: Path, marks: Marks, output: Path) -> None:
    """Copies it into the final file; other files of ffmpeg are made beside `sound`. Raises MediaError."""
    about = sound.with_name("metadata.txt")
    about.write_text(metadata(marks), "utf-8")
    inputs, maps = [f"file:{sound}", f"file:{about}"], ["-map", "0:a"]
    if marks.cover is not None:
        cover = sound.with_name("cover")
        cover.write_bytes(marks.cover)
        inputs.append(f"file:{cover}")
        maps += ["-map", "2:v", "-disposition:v:0", "attached_pic"]
    given = [part for name in inputs for part in ("-i", name)]
    command = [program, "-v", "error", "-nostdin", "-y", *given, *maps, "-map_metadata", "1", "-map_chapters", "1",
               "-c", "copy", "-movflags", "+faststart", "-f", "mp4", f"file:{output}"]  # fmt: skip
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, timeout=MUX_S, check=False)
        if done.returncode:
            raise MediaError(last_words(errors))


def metadata(marks: Marks) -> str:
    """Tags and chapters in ffmpeg's format FFMETADATA. TIMEBASE is needed: the default unit is the nanosecond."""
    lines = [";FFMETADATA1", *(f"{escaped(name)}={escaped(value)}" for name, value in marks.tags.items() if value)]
    for chapter in marks.chapters:
        lines += ["[CHAPTER]", "TIMEBASE=1/1000", f"START={round(chapter.start_s * 1000)}",
                  f"END={round(chapter.end_s * 1000)}", f"title={escaped(chapter.title)}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """For FFMETADATA. ffmpeg reads an escaped backslash at the end of a line as an escaped line end."""
    text = f"{text} " if text.endswith("\\") else text
    return "".join(f"\\{one}" if one in "=;#\\\n" else one for one in text.replace("\0", ""))
