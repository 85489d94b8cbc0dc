"""TTS: what a Python program gets, and that it is what the command makes. With the embedded voice."""

import base64
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from command import Omnitts
from patience import LONG_S, eventually, first_sound_only
from sounds import saved_clip

import omnitts_cli as omnitts
from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.errors import DeviceError
from omnitts_cli.request import Request
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.speaking import sub_seed
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import voice_for
from omnitts_cli.text.reading import readings
from omnitts_cli.text.spell_out import plain_letters
from omnitts_cli.text.split import split

LONG = (
    "The lamp in the window had burned since before the rain began, and nobody in the house could say who had lit it. "
    "Martha thought that it was the boy. The boy thought that it was the wind, which came down the valley at night "
    "and tried all the doors. His uncle said nothing, because he was asleep in the chair beside the stove, with one "
    "hand on the dog and the other on a book about bees. Outside, the road was a river. "
) * 3
SSML = '<speak>It begins.<break time="700ms"/>It is <sub alias="nearly">almost</sub> over.</speak>'
MARKDOWN = "# A heading\n\nSome *words* and a list:\n\n- one\n- two\n"

# A text, the options as typed, and the same for `speak`. VOICE is the saved voice "me".
CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("Hello there, how are you today?", [], {}),
    ("It was 5 o'clock on 21 March, and it cost $42.50.", [], {}),
    ("One moment. [pause:800ms] Here it is.", [], {}),
    (SSML, ["--input-format", "ssml"], {"input_format": "ssml"}),
    ("A voice of its own.", ["-v", "me"], {"voice": "me"}),
    (LONG, [], {}),
    ("Numbers such as 3.14, 1,000,000 and 7/8 are read aloud.", ["-v", "clara"], {"voice": "clara"}),
    ("A slower pace is easier to follow.", ["--speed", "0.8"], {"speed": 0.8}),
    ("A faster pace saves time. Really.", ["--speed", "1.5"], {"speed": 1.5}),
    ("This is softer.", ["--volume", "-12"], {"volume": -12.0}),
    ("Brought to a level, the whole of it. Yes.", ["--loudness", "-23"], {"loudness": -23.0}),
    ("First line\nSecond line\nThird line", ["--split", "line"], {"split": "line"}),
    ("One paragraph.\n\nAnother one. And on.", ["--paragraph-gap", "1200"], {"paragraph_gap": 1200}),
    ("One. Two. Three. Four.", ["--sentence-gap", "0"], {"sentence_gap": 0}),
    ("Not cut at all. Whatever it says.", ["--split", "none"], {"split": "none"}),
    ("The likeliest words only.", ["--temperature", "0"], {"temperature": 0.0}),
    ("Somewhat warmer than usual.", ["--temperature", "1.1", "--top-k", "20"], {"temperature": 1.1, "top_k": 20}),
    ("Fewer of the rarer ones.", ["--top-p", "0.7"], {"top_p": 0.7}),
    ("Again and again and again.", ["--repetition-penalty", "1.3"], {"repetition_penalty": 1.3}),
    ("Cut after a while, this is.", ["--max-frames", "9"], {"max_frames": 9}),
    ("Cut after a second and a bit.", ["--max-seconds", "1.2"], {"max_seconds": 1.2}),
    ("Words as they come, one by one.", ["--text-mode", "streamed"], {"text_mode": "streamed"}),
    ("All of the words at once.", ["--text-mode", "whole"], {"text_mode": "whole"}),
    (MARKDOWN, ["--input-format", "md"], {"input_format": "md"}),
    ("In English, if you please.", ["-l", "en"], {"language": "en"}),
    ("Whatever language this is in.", ["-l", "detect"], {"language": "detect"}),
    (LONG[:300], ["-v", "me", "--speed", "1.2"], {"voice": "me", "speed": 1.2}),
    ("Arthur is deep and slow. " * 6, ["-v", "arthur"], {"voice": "arthur"}),
    ("CLONE", [], {}),
    ("DESIGN", [], {}),
]
QUICK = (2, 3, 4, 28, 29)


@pytest.fixture(scope="module")
def tts() -> Iterator[TTS]:
    with omnitts.load("tiny", device="cpu", threads=1, slots=4) as opened:
        yield opened


@pytest.fixture
def clip(home: Path, tts: TTS) -> Path:
    return saved_clip(tts)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in range(len(CASES))]
)
def test_it_speaks_as_the_command_does(number: int, omnitts: Omnitts, clip: Path, tts: TTS) -> None:
    """Same voice, same seed: the same sound, within one step of 16 bits."""
    text, typed, options = CASES[number]
    common = ["--seed", "7", "-b", "4", "-d", "cpu", "-o", "a.wav"]
    if text == "CLONE":
        text = "As he would say it, in 3 words."
        done = omnitts("clone", "-r", str(clip), "--no-check", *common, text)
        voice: Any = tts.clone(clip, check=False)
    elif text == "DESIGN":
        text = "Once upon a time, there was a door."
        done = omnitts("design", "-i", "a deep, slow man", *common, text)
        voice = tts.design("a deep, slow man")
    else:
        Path("text").write_text(text)
        source = ["-f", "text"] if "--input-format" in typed else [text]
        done = omnitts("say", *common, *typed, *(source if len(source) > 1 else ["--", *source]))
        voice = options.get("voice")
    assert done.code == 0, done.err
    made = tts.speak(text, seed=7, **{**options, "voice": voice})
    said, rate = soundfile.read("a.wav", dtype="int16")
    ours = to_int16(made.samples)
    assert (rate, said.shape) == (made.sample_rate, ours.shape)
    assert np.abs(said.astype(int) - ours).max() <= 1


def test_the_names_of_the_package_are_these() -> None:
    speaking = ["TTS", "Chunk", "Clip", "Notice", "OmniError", "Stream", "Voice", "load"]
    assert set(omnitts.__all__) == {*speaking, "Answer", "Assistant", "load_assistant", "Tuned", "tune"}
    assert all(getattr(omnitts, name).__doc__ for name in omnitts.__all__)
    assert set(omnitts.__all__) <= set(dir(omnitts)) and (Path(omnitts.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="speak"):
        omnitts.speak  # noqa: B018


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("omnitts_cli", {"torch", "numpy", "rich", "typer"}),
        ("omnitts_cli.speech.tts", {"torch"}),
        ("omnitts_cli.weights.store", {"torch", "huggingface_hub", "numpy"}),
        (
            "omnitts_cli.bench.server, omnitts_cli.bench.job, omnitts_cli.bench.campaign",
            {"torch", "transformers", "matplotlib", "tqdm"},
        ),
    ],
)
def test_importing_does_not_load_what_is_heavy(modules: str, heavy: set[str]) -> None:
    """A command that finds a model, measures a server or speaks through one never needs it."""
    code = f"import sys, {modules}; assert not {heavy} & set(sys.modules); omnitts_cli.OmniError"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(omnitts.__file__).parents[1])})


@pytest.mark.parametrize(
    "text,form,words",
    [
        ("Wait. [pause:90s] Go on.", "text", "[pause:90s] is cut to 60 s, the longest pause"),
        ("<speak><emphasis>Hi</emphasis> there.</speak>", "ssml", "the words in <emphasis> are spoken"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHi there.\n", "srt", "their times are not kept"),
    ],
)
def test_what_is_odd_in_a_text_is_a_notice(tts: TTS, text: str, form: str, words: str) -> None:
    notices: list[omnitts.Notice] = []
    clip = tts.speak(text, seed=1, input_format=form, tell=notices.append)
    assert [words in notice.message for notice in clip.notices] == [True]
    assert notices == list(clip.notices)


def test_help_of_speak_names_every_option(tts: TTS) -> None:
    with pytest.raises(omnitts.OmniError) as caught:
        tts.speak("Hello.", colour="red")
    options = (caught.value.hint or "").removeprefix("options: ").split(", ")
    assert "language" in options
    assert [name for name in options if name != "seed" and not re.search(rf"\b{name}\b", TTS.speak.__doc__ or "")] == []


NEEDS = "clone() needs a file, several files, bytes, an open file, a Clip, or (samples, rate)"
WRONG: list[tuple[Any, str]] = [
    (lambda tts: tts.speak(None), "the text is NoneType, not a string"),
    (lambda tts: tts.speak(b"Hello."), "the text is bytes, not a string"),
    (lambda tts: tts.speak_all("Hello."), "speak_all() takes several texts, not one string"),
    (lambda tts: tts.speak("Hello.", voice=3), "voice = 3 is not a name, a path or a Voice"),
    (lambda tts: tts.clone([]), NEEDS),
    (lambda tts: tts.clone(np.zeros(24_000, np.float32)), NEEDS),
    (lambda tts: tts.clone("a.wav", strat=1.0), "clone() has no option 'strat'"),
    (lambda tts: tts.clone(tts.speak("Hello."), start=1.0), "clone() has no option 'start'"),
    (lambda tts: tts.design(None), "the description is None, not text"),
    (lambda tts: tts.design("deep", seed="x"), "seed = 'x' is not a whole number from 0 to 9223372036854775807"),
    (lambda tts: tts.speak_all(["Hello."], seed=1.5), "seed = 1.5 is not a whole number from 0 to 9223372036854775807"),
    (lambda tts: tts.clone(3), NEEDS),
    (lambda tts: tts.stream(["one ", 2]).clip(), "the text contains int; only strings can be spoken"),
    (lambda tts: omnitts.load("tiny", devise="cpu"), "load(): unknown key 'devise'"),
]


@pytest.mark.parametrize("call,message", WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_argument_is_an_error_in_words(tts: TTS, call: Any, message: str) -> None:
    with pytest.raises(omnitts.OmniError) as caught:
        call(tts)
    assert caught.value.message == message and caught.value.hint


def test_a_choice_may_be_spelled_as_it_may_be_typed(tts: TTS) -> None:
    assert tts.speak("Hello.", seed=1, language="English").seconds > 0
    assert tts.speak("Hello.", seed=1, lang="en").seconds > 0, "a former name"
    with pytest.raises(omnitts.OmniError, match="not one of"):
        tts.speak("Hello.", language="Klingon")


def test_a_clip_is_the_join_of_its_stream(tts: TTS) -> None:
    text = "Here is one sentence. Here is another one, a little longer than the first. " * 2
    stream = tts.stream(text, seed=3)
    chunks = list(stream)
    clip = tts.speak(text, seed=3)
    assert len(chunks) > 5 and all(chunk.sample_rate == 24_000 for chunk in chunks)
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), clip.samples)
    assert [c.sentence for c in chunks if c.sentence] == list(clip.sentences)
    assert " ".join(sentence.text for sentence in clip.sentences) == text.strip()
    assert clip.sentences[-1].end_s == pytest.approx(clip.seconds)


def test_a_clip_knows_its_seed_and_nothing_is_dropped(tts: TTS) -> None:
    text = LONG[: len(LONG) // 3]  # five sentences, for four slots
    clip = tts.speak(text)
    assert clip.seconds > 15 and " ".join(s.text for s in clip.sentences) == text.strip()
    assert np.array_equal(tts.speak(LONG[:50], seed=5).samples, tts.speak(LONG[:50], seed=5).samples)
    assert tts.speak("Hello.").seed != tts.speak("Hello.").seed
    again = tts.speak("Hello.")
    assert np.array_equal(tts.speak("Hello.", seed=again.seed).samples, again.samples)
    with pytest.raises(omnitts.OmniError, match="characters"):
        tts.engine.engine.clip(Request(LONG))


def test_what_is_printed_of_a_clip_a_voice_and_a_model_is_short(tts: TTS, tmp_path: Path) -> None:
    clip = tts.speak("One moment. Here it is.", seed=7)
    assert repr(clip) == f"<Clip: {clip.seconds:.2f} s at 24000 Hz, 1 sentence, seed 7>"
    assert repr(tts).startswith("<TTS: tiny on cpu, ")
    assert repr(tts.design("a deep man")) == "<Voice: designed 'a deep man'>"
    assert repr(tts.clone(tts.speak(LONG[:200]))) == "<Voice: cloned>"


def test_a_notebook_shows_a_player(tts: TTS) -> None:
    clip = tts.speak("One moment.", seed=7)
    head, data, tail = clip._repr_html_().replace('">', ",").split(",")
    assert (head, tail) == ('<audio controls src="data:audio/flac;base64', "</audio>")
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="int16")
    assert rate == clip.sample_rate and len(samples) == clip.samples.size
    assert np.abs(samples.astype(int) - to_int16(clip.samples).astype(int)).max() <= 1


def test_a_clip_is_pickled_and_never_saved_in_another_format_than_its_name_says(tts: TTS, tmp_path: Path) -> None:
    clip = pickle.loads(pickle.dumps(tts.speak("One moment.", seed=7)))
    assert clip.seed == 7 and clip.sentences[0].text == "One moment."
    for name, kind in (("a.mp3", "MP3"), ("b.opus", "OGG"), ("c", "WAV"), ("chapter.1", "WAV")):
        assert soundfile.info(clip.save(tmp_path / name)).format == kind
    with pytest.raises(omnitts.OmniError, match=r"\.xyz is not a known audio format"):
        clip.save(tmp_path / "d.xyz")
    assert not (tmp_path / "d.xyz").exists()
    assert soundfile.info(clip.save(tmp_path / "d.xyz", format="flac")).format == "FLAC"


@pytest.mark.parametrize(("form", "kind"), [("wav", "WAV"), ("mp3", "MP3"), ("flac", "FLAC"), ("opus", "OGG")])
def test_a_clip_goes_to_bytes_and_back(tts: TTS, form: str, kind: str) -> None:
    clip, file = tts.speak("One moment, please.", seed=7), io.BytesIO()
    assert clip.save(file, format=form) is None
    assert (
        len(file.getvalue()) == len(clip.encode(form)) and soundfile.info(io.BytesIO(clip.encode(form))).format == kind
    )
    samples, rate = soundfile.read(io.BytesIO(clip.encode(form, sample_rate=24_000)), dtype="float32")
    assert rate == 24_000 and len(samples) == pytest.approx(clip.samples.size, abs=2400)
    if form in ("wav", "flac"):
        assert np.abs(samples - clip.samples).max() < 1e-3
    data = clip.encode(form)
    voices = [tts.clone(given, check=False) for given in (data, io.BytesIO(data))]
    assert np.array_equal(*(voice.identity.embedding for voice in voices))


def test_samples_and_their_rate_are_a_clip(tts: TTS, tmp_path: Path) -> None:
    clip = tts.speak("One moment, please.", seed=7)
    said = tts.clone(clip, check=False).identity.embedding
    stereo = np.stack([clip.samples] * 2, axis=1)
    whole = (clip.samples * 32767).astype(np.int16)
    for samples, near in ((clip.samples, 1.0), (list(map(float, clip.samples)), 1.0), (stereo, 1.0), (whole, 0.9)):
        found = tts.clone((samples, clip.sample_rate), check=False).identity.embedding
        assert np.corrcoef(found, said)[0, 1] > near - 1e-4
    for wrong in ((clip.samples, 0), (clip.samples, 2.5), (["a"], 24_000), (clip.samples * np.nan, 24_000), b"", b"x"):
        with pytest.raises(omnitts.OmniError):
            tts.clone(wrong)
    path = tmp_path / "a.wav"
    clip.save(path)
    with path.open() as text, pytest.raises(omnitts.OmniError, match="bytes"):
        tts.clone(text)


def code_of_child(call: Callable[[], Any]) -> int:
    """The exit code of a forked process that calls this: 0 for the error of such processes, within a second."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(LONG_S))  # ends it if it hangs
        began = time.monotonic()
        try:
            call()
            os._exit(1)
        except DeviceError as error:
            quick = time.monotonic() - began < 1.0
            os._exit(0 if quick and "load() in the child" in str(error.hint) else 2)
        except BaseException:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_raises_within_a_second(tts: TTS) -> None:
    """As with gunicorn --preload, Celery's prefork, or multiprocessing on Linux; the parent speaks on."""
    clip = tts.speak("One moment.", seed=7)
    stream = tts.stream("One moment, please. " * 40, seed=7)  # not at its end when the children begin
    next(stream)
    calls = [
        lambda: tts.speak("Hello."), lambda: tts.stream("Hello."), lambda: tts.clone(clip, check=False),
        lambda: list(stream), lambda: tts.speak_all(["Hello."]),
    ]  # fmt: skip
    for call in calls:
        assert 0 in [code_of_child(call) for _ in range(3)], "a busy machine may delay one"
    assert code_of_child(tts.close) == 1, "it does not wait for threads and locks that the child does not have"
    stream.close()
    assert np.array_equal(tts.speak("One moment.", seed=7).samples, clip.samples)


@pytest.mark.slow
def test_the_types_of_a_program_are_checked(tmp_path: Path) -> None:
    """The package is marked as typed (py.typed), so mypy takes its annotations."""
    program = tmp_path / "program.py"
    program.write_text(
        "import omnitts_cli as omnitts\n"
        "with omnitts.load('tiny', threads=1) as tts:\n"
        "    clips: list[omnitts.Clip] = tts.speak_all(['One.', 'Two.'])\n"
        "    length: float = tts.speak('Hello.', voice='clara', speed=1.1).seconds\n"
        "    wrong: int = tts.speak_all(['One.'], errors='return')\n"
    )
    root = Path(omnitts.__file__).parent.parent
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(root)}
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert len(found) == 1 and "program.py:5: error: Incompatible types" in found[0], done.stdout
    assert "list[Clip | OmniError]" in found[0]


def test_several_threads_speak_at_once(tts: TTS) -> None:
    texts = [f"I am thread {n}." for n in range(6)]
    alone = [tts.speak(text, seed=9).codes for text in texts]

    def speak(n: int) -> Any:
        return tts.stream(texts[n], seed=9).clip() if n % 2 else tts.speak(texts[n], seed=9)

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(speak, range(6)))
    assert all(np.array_equal(clip.codes, codes) for clip, codes in zip(found, alone, strict=True))


def test_speak_all_keeps_the_order(tts: TTS) -> None:
    texts = ["Four.", "One, two, three, four, five, six.", "Three."]
    clips = tts.speak_all(texts, seed=4)
    assert [clip.sentences[0].text for clip in clips] == texts
    assert [clip.seed for clip in clips] == [4, 5, 6]
    assert np.array_equal(clips[1].codes, tts.speak(texts[1], seed=5).codes)


def idle(tts: TTS) -> bool:
    """Waits until the engine has nothing to do."""
    return bool(eventually(lambda: not tts.engine.engine.busy))


@pytest.mark.parametrize("how", ["close", "break", "forget", "with"])
def test_leaving_a_stream_early_frees_its_slots(tts: TTS, how: str) -> None:
    stream = tts.stream(LONG)
    next(stream)
    if how == "close":
        stream.close()
        assert list(stream) == []
    elif how == "break":
        for _ in stream:
            break
        del stream
    elif how == "forget":
        del stream
    else:
        with stream:
            next(stream)
    assert idle(tts) and len(tts.engine.engine.snapshot().free) == 4


def test_a_stream_that_is_garbage_collected_waits_for_no_lock(tts: TTS) -> None:
    """The collector may run in `Loop.submit`, in the very thread that holds the lock."""
    stream = tts.stream(LONG)
    next(stream)

    def finalize() -> None:  # a stream and its generator are a cycle: the collector ends both, in any order
        stream._chunks.close()  # type: ignore[attr-defined]
        stream.__del__()

    with tts.engine._lock:
        collector = threading.Thread(target=finalize, daemon=True)
        collector.start()
        collector.join(LONG_S)
        assert not collector.is_alive()
    assert idle(tts) and len(tts.engine.engine.snapshot().free) == 4


def test_who_listens_goes_before_what_is_made_in_bulk(tts: TTS, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    admission = tts.engine.engine._admission  # type: ignore[attr-defined]
    plain = admission.open

    def opened(record: Any, slot: int) -> None:
        plain(record, slot)
        order.append(record.request.text)

    monkeypatch.setattr(admission, "open", opened)
    sentences = "The boats were tied up for the night. " * 10
    bulk = threading.Thread(target=lambda: tts.speak(sentences, seed=1))
    with first_sound_only(tts.engine.engine):
        bulk.start()
        eventually(lambda: len(tts.engine.engine.snapshot().requests) == 8)  # type: ignore[attr-defined]
        stream = tts.stream("Listen.", seed=2)
    next(stream)
    stream.close()
    bulk.join()
    assert order.index("Listen.") <= 4 < len(order) - 1, "it gets the first slot that becomes free"


def test_a_designed_voice_keeps_its_seed_and_a_cloned_one_is_saved(tts: TTS, home: Path) -> None:
    voice = tts.design("a deep, slow man", seed=3)
    clip = tts.speak("My voice was made of words.", voice=voice)
    assert clip.seed == 3
    with pytest.raises(omnitts.OmniError, match="no clip") as caught:
        voice.save("him")
    assert "tts.clone" in str(caught.value.hint)
    path = tts.clone(clip, "My voice was made of words.", check=False).save("him", consent="nobody was asked")
    assert path.exists() and voice_files.load("him").about["consent"] == "nobody was asked"
    assert "him" in tts.voices and "en" in tts.languages and tts.sample_rate == 24_000
    assert tts.speak("Again.", voice="him", seed=1).seconds > 0.2


@pytest.mark.parametrize(
    ("options", "message", "hint", "code"),
    [
        ({"temprature": 0.5}, "no option 'temprature'", "did you mean temperature=?", 2),
        ({"speed": 9}, "speed = 9 is not a number from 0.5 to 2", "correct speed=", 2),
        ({"voice": "henri"}, "voice 'henri' not found", "did you mean 'henry'?", 4),
        ({"language": "zh"}, "Chinese", "-m 0.6b", 2),
        ({"file": "x"}, "no option 'file'", "options:", 2),
    ],
)
def test_errors_are_those_of_the_command(tts: TTS, options: dict[str, Any], message: str, hint: str, code: int) -> None:
    with pytest.raises(omnitts.OmniError) as caught:
        tts.speak("Hello.", **options)
    assert message in caught.value.message and hint in str(caught.value.hint) and caught.value.exit_code == code


def test_settings_count_only_when_they_are_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_VOICE", "clara")
    monkeypatch.setenv("OMNITTS_SLOTS", "3")
    Path("omnitts.toml").write_text("speed = 2.0\n")
    with omnitts.load("random:toy", device="cpu", slots=2) as plain:
        assert plain.engine.plan.slots == 2
        quick = plain.speak("hello", voice="ann", seed=1, max_frames=10).seconds
    with omnitts.load("random:toy", device="cpu", settings=True) as asked:
        assert asked.engine.plan.slots == 3
        assert asked.speak("hello", voice="ann", seed=1, max_frames=10).seconds < quick
        with pytest.raises(omnitts.OmniError, match="'clara' not found"):
            asked.speak("hello")


def test_a_closed_model_speaks_no_more() -> None:
    tts = omnitts.load("random:toy", device="cpu", slots=1)
    tts.close()
    with pytest.raises(omnitts.OmniError, match="closed"):
        tts.speak("hello")


def test_pieces_one_by_one_are_the_sound_of_the_whole(tts: TTS) -> None:
    """What a client does that asks a server for its pieces."""
    texts = [text for piece in split(LONG[:330]) for _, text in readings(piece, plain_letters, 110)]
    voice = voice_for("clara", tts.engine.model)
    parts = [
        tts.piece(text, voice, None, Speech(seed=sub_seed(11, number, 0), temperature=0.9)).clip()
        for number, text in enumerate(texts)
    ]
    whole = tts.speak(LONG[:330], voice="clara", seed=11, temperature=0.9, sentence_gap=0, paragraph_gap=0)
    assert len(texts) > 3
    at, join = 0, int(0.005 * tts.sample_rate)  # the first 5 ms of a piece carry the step from the one before
    for part in parts:
        assert np.array_equal(part.samples[join:], whole.samples[at + join : at + part.samples.size])
        at += part.samples.size
    assert at == whole.samples.size and np.array_equal(parts[0].samples[:join], whole.samples[:join])


def test_a_piece_that_is_cut_is_not_tried_again(tts: TTS) -> None:
    stream = tts.piece("Cut after a while.", voice_for(None, tts.engine.model), None, Speech(seed=3, max_frames=4))
    assert stream.clip().samples.size == 4 * 1920 and stream.account.stopped == "limit"
    assert stream.account.retries == 0


def test_errors_of_one_text_stop_the_others_or_do_not(tts: TTS) -> None:
    texts = ["A day.", "...", "A night."]
    with pytest.raises(omnitts.OmniError, match="nothing to speak"):
        tts.speak_all(texts, seed=1)
    made = tts.speak_all(texts, seed=1, errors="return")
    assert [type(one).__name__ for one in made] == ["Clip", "TextError", "Clip"]
    assert np.array_equal(made[2].samples, tts.speak("A night.", seed=3).samples)
    with pytest.raises(omnitts.OmniError, match="errors = 'ignore'"):
        tts.speak_all(texts, errors="ignore")  # type: ignore[arg-type]
