"""A module of Speech Dispatcher, for screen readers: its protocol on the standard streams, with one open model.

Commands and their data arrive as lines; each is answered with a line that begins with a number. Events of the speech
begin with 7. Sound goes to the server, which plays it. One thread reads commands, another speaks.
"""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli.audio.pcm import to_bytes
from omnitts_cli.doors.ahead import Ahead
from omnitts_cli.doors.lines import LineStreams
from omnitts_cli.doors.reader import Reader, Utterance
from omnitts_cli.errors import OmniError
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech.tts import TTS
from omnitts_cli.text import screen

COMMANDS = {
    "SPEAK": "speak", "CHAR": "key", "KEY": "key", "SOUND_ICON": "key", "STOP": "stop", "PAUSE": "pause",
    "LIST VOICES": "list_voices", "SET": "set", "AUDIO": "audio", "LOGLEVEL": "log_level",
}  # fmt: skip
NUMBERS = ("rate", "pitch", "pitch_range", "volume")
WORDS = {
    "punctuation_mode": tuple(screen.LEVELS),
    "spelling_mode": ("on", "off"),
    "cap_let_recogn": ("none", "spell", "icon"),
}
NAMES = ("voice", "synthesis_voice", "language")
LONGEST = 1 << 20  # bytes of a message
BLOCK_S = 0.05  # of sound in one event: what was sent when STOP comes is heard


class Module:
    """One module, from INIT to QUIT or the end of its input."""

    def __init__(
        self, load: Callable[[], TTS], speech: Speech, source: BinaryIO, out: BinaryIO,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self._load, self._speech, self._note = load, speech, note
        self._lines = LineStreams(source, out, LONGEST)
        self._settings: dict[str, str] = {}
        self._now: Utterance | None = None
        self._speaker: threading.Thread | None = None
        self._ending = threading.Lock()  # after the event that ends a message, none of it is sent
        self._ahead = Ahead(self._prepare)
        self.reader: Reader | None = None

    # ---- commands

    def run(self) -> None:
        """Answers commands until QUIT or the end of the input."""
        try:
            while (line := self._line()) is not None:
                if line == "QUIT":
                    self.stop()
                    self._join()
                    self._say("210 OK QUIT")
                    return
                self._act(line)
        except BrokenPipeError:
            pass
        finally:
            if (now := self._now) is not None:
                now.cut("703 STOP")
            self._ahead.close()
            self._join()
            if self.reader is not None:
                self.reader.tts.close()

    def _act(self, line: str) -> None:
        if line == "INIT":
            self.init()
        elif line.startswith("DEBUG"):
            on = line.split()[1:2]
            self._say(f"200 OK DEBUGGING {on[0]}" if on in (["ON"], ["OFF"]) else "302 ERROR BAD SYNTAX")
        elif line in COMMANDS:
            getattr(self, COMMANDS[line])()
        else:
            self._say("300 ERR UNKNOWN COMMAND")

    def init(self) -> None:
        """Opens the model."""
        try:
            self.reader = self.reader or Reader(self._load(), self._speech, self._settings)
        except OmniError as error:
            self._say(f"399-{one_line(error.message)}", "399 ERR CANT INIT MODULE")
            return
        self._ahead.rest()
        tts = self.reader.tts
        self._say(f"299-{one_line(tts.engine.model.name)}, {len(tts.voices)} voices", "299 OK LOADED SUCCESSFULLY")

    def set(self) -> None:
        """Settings of the messages that follow."""
        self._take("207 OK RECEIVING SETTINGS", self._set, "203 OK SETTINGS RECEIVED")
        if self.reader is not None and self._now is None:
            self._ahead.rest()

    def audio(self) -> None:
        """Where the sound goes: always to the server."""
        allowed = ("audio_output_method", "server")
        self._take("207 OK RECEIVING AUDIO SETTINGS", lambda *pair: pair == allowed, "203 OK AUDIO INITIALIZED")

    def log_level(self) -> None:
        """Nothing is logged but errors."""
        self._take("207 OK RECEIVING LOGLEVEL SETTINGS", lambda name, _: name == "log_level", "203 OK LOGLEVEL SET")

    def list_voices(self) -> None:
        """The voices with their language and what is known of them."""
        if self.reader is None or not self.reader.tts.voices:
            self._say("304 CANT LIST VOICES")
            return
        tts = self.reader.tts
        language = tts.languages[0] if len(tts.languages) == 1 else "none"
        self._say(*(f"200-{name}\t{language}\tnone" for name in tts.voices), "200 OK VOICE LIST SENT")

    def speak(self) -> None:
        """A message, which may be SSML with index marks."""
        if (text := self._message(several=True)) is not None and self.reader is not None:
            self._begin(self.reader.message, text)

    def key(self) -> None:
        """A character, or the name of a key or of a sound icon: there are no sounds for those here."""
        if (text := self._message()) is not None and self.reader is not None:
            self._begin(self.reader.name, text)

    def stop(self) -> None:
        """Ends the message."""
        self._end(self._now, "703 STOP")

    def pause(self) -> None:
        """Ends the message; the server begins it again at the last index mark."""
        self._end(self._now, "704 PAUSE")

    # ---- speech

    def _message(self, *, several: bool = False) -> str | None:
        """The text of a message, if it can be spoken now."""
        self._say("202 OK RECEIVING MESSAGE")
        lines = self._data()
        if lines is None:
            return None
        text = "\n".join(lines)
        if not several and len(lines) > 1:
            self._say("305 DATA MORE THAN ONE LINE")
        elif not text or self.reader is None or self._now is not None:
            self._say("301 ERROR CANT SPEAK")
        else:
            return " " if not several and text == "space" else text
        return None

    def _begin(self, sound: Callable[[Utterance, str], Iterator[Any]], text: str) -> None:
        """Begins to speak."""
        self._join()
        self._ahead.leave()
        self._now = now = Utterance()
        self._say("200 OK SPEAKING", "701 BEGIN")
        self._speaker = threading.Thread(target=self._utter, args=(now, sound(now, text)), name="omnitts speechd")
        self._speaker.start()

    def _utter(self, now: Utterance, sound: Iterator[Any]) -> None:
        """Sends sound and index marks, on a thread of its own."""
        try:
            try:
                for block in sound:
                    if isinstance(block, str):
                        self._send(now, f"700-{one_line(block)}\n700 INDEX MARK\n".encode())
                    else:
                        self._play(now, block)
                    if now.end:
                        break
            except Exception as error:  # the module goes on with the next message
                self._note(f"{type(error).__name__}: {error}")
            self._end(now, "702 END")
        except OSError:  # the server has gone; the end of the input ends the module
            self._now = None
        self._ahead.rest()

    def _end(self, now: Utterance | None, event: str) -> None:
        """Ends a message and sends the event, unless it has ended. It does not wait for the engine."""
        with self._ending:
            if now is None or now.end:
                return
            now.end, self._now = event, None  # before the event: then the server may send the next message
            try:
                self._say(event)
            finally:
                now.cut(event)

    def _send(self, now: Utterance, data: bytes) -> None:
        """Sends an event of a message, unless it has ended."""
        with self._ending:
            if not now.end:
                self._lines.write(data)

    def _prepare(self, now: Utterance) -> None:
        """Makes the sound of usual keys, while nothing is spoken."""
        assert self.reader is not None
        try:
            self.reader.prepare(now)
        except Exception as error:
            if not now.end:  # else the engine is being closed
                self._note(f"{type(error).__name__}: {error}")

    # ---- lines

    def _play(self, now: Utterance, samples: np.ndarray) -> None:
        """Sends sound in small parts, until the message is ended."""
        assert self.reader is not None
        rate, factor = self.reader.tts.sample_rate, (int(self._settings.get("volume", 100)) + 100) / 200
        size = max(1, round(BLOCK_S * rate))
        for start in range(0, samples.size, size):
            block = samples[start : start + size]
            shape = {"bits": 16, "num_channels": 1, "sample_rate": rate, "num_samples": block.size, "big_endian": 0}
            lines = "".join(f"705-{name}={value}\n" for name, value in shape.items()).encode()
            data = to_bytes(block * np.float32(factor), "pcm16").replace(b"}", b"}]").replace(b"\n", b"}*")
            if now.end:
                return
            self._send(now, lines + b"705-AUDIO\0" + data + b"\n705 AUDIO\n")

    def _say(self, *lines: str) -> None:
        self._lines.write("".join(line + "\n" for line in lines).encode())

    def _line(self) -> str | None:
        line = self._lines.read()
        return None if line is None else line.decode("utf-8", "replace")

    def _data(self) -> list[str] | None:
        """The lines up to a dot, which are a message or settings; None at the end of the input."""
        lines, size = list[str](), 0
        while (line := self._line()) is not None:
            if line == ".":
                return lines if size < LONGEST else []  # none of one that is too long
            size += len(line) + 1
            if size < LONGEST:
                lines.append(line[1:] if line.startswith("..") else line)
        return None

    def _take(self, ready: str, use: Callable[[str, str], bool], done: str) -> None:
        """Receives lines NAME=VALUE."""
        self._say(ready)
        lines = self._data()
        if lines is None:
            return
        pairs = [line.partition("=") for line in lines]
        if not all(name and equals and value for name, equals, value in pairs):
            self._say("302 ERROR BAD SYNTAX")
        elif all([use(name, value) for name, _, value in pairs]):  # the others are used even if one is wrong
            self._say(done)
        else:
            self._say("303 ERROR INVALID PARAMETER OR VALUE")

    def _set(self, name: str, value: str) -> bool:
        if name in NUMBERS:
            right = re.fullmatch(r"-?\d{1,3}", value, re.ASCII) is not None and -100 <= int(value) <= 100
        else:
            right = name in NAMES or value in WORDS.get(name, ())
        if right:
            self._settings[name] = "" if value == "NULL" else value
        return right

    def _join(self) -> None:
        if self._speaker is not None:
            self._speaker.join()


def one_line(text: str) -> str:
    """Text that cannot end a line of the protocol."""
    return " ".join(text.split())
