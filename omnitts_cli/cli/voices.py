"""omnitts voices: the voices of a model and the saved ones; making, moving and blending them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from omnitts_cli.audio.magic import is_recording
from omnitts_cli.cli import clone
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.errors import InputError, ModelError, UsageError
from omnitts_cli.settings.commands import SavedClip
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Messages, Model, TextIn
from omnitts_cli.speech import adapters, voice_files
from omnitts_cli.speech.exported import write_model
from omnitts_cli.speech.reference import reference
from omnitts_cli.speech.voice_files import SUFFIX, SavedVoice
from omnitts_cli.speech.voices import parts_of_blend
from omnitts_cli.terminal.console import console
from omnitts_cli.text.language import LANGUAGES, language_code
from omnitts_cli.voices import Cloned
from omnitts_cli.weights.find import find, here, not_here
from omnitts_cli.weights.names import HubName


def list_(messages: Messages, model: str = "", language: str = "") -> None:
    """List saved voices and the voices of the model."""
    code = language_code(language) if language else None
    rows, saved = [], voice_files.names()
    for name in saved:
        try:
            about = voice_files.load(name).about
        except InputError as error:
            rows.append([name, "damaged", "", error.cause or error.message])
            console.record(status="ok", name=name, kind="damaged", about=error.cause or error.message)
            continue
        if code is None or may_speak(about, code):
            rows.append([name, "saved", about.get("model", ""), about.get("source", "")])
            console.record(status="ok", name=name, kind="saved", **about)
    for name, words, of in speakers(model, code):
        rows.append([name, "model", of, f"{words}; -v {name} is the saved one" if name in saved else words])
        console.record(status="ok", name=name, kind="model", model=of, about=words)
    console.table(rows, head=["NAME", "KIND", "MODEL", "ABOUT"])
    if code is not None and not rows:
        console.note(f"no voice of {model or EMBEDDED} speaks {LANGUAGES[code].title()}\n  try: -m 0.6b")
    elif not rows:
        console.note('no voices yet\n  try: omnitts clone -r me.wav --save-voice me "Good morning"')


def show(name: str, messages: Messages) -> None:
    """Show details of a voice."""
    if name not in voice_files.names():
        for known, words, of in speakers(""):
            if known == name.lower():
                own = {"name": known, "kind": "model", "model": of, "about": words}
                console.table([[key, value] for key, value in own.items()])
                return console.record(status="ok", **own)
    path = voice_files.find(name)
    voice = voice_files.read(path)
    codes = voice.voice.codes
    facts: dict[str, str | int] = {
        "name": name,
        "kind": "saved",
        **voice.about,
        "frames": 0 if codes is None else len(codes),
        "file": str(path),
    }
    if voice.voice.transcript is not None:
        facts["transcript"] = voice.voice.transcript
    console.table([[key, str(value)] for key, value in facts.items()])
    console.record(status="ok", **facts)


def save(name: str, clip: SavedClip, model: Model, opener: ModelOpener, force: bool = False) -> None:
    """Save the voice of a clip."""
    clip = replace(clip, save_voice=name)
    refuse_namesake(name, force, model.model or EMBEDDED)
    clone.refuse_contradictions(clip, TextIn(), None, command=f"voices save {name}")
    reference = clone.read(clip, clip.asr_model, offline=opener.network.offline)
    with opener.model(model.model, "base") as tts:
        clone.tell_without(reference, tts.engine.model.name)
        clone.keep(tts.clone(reference), clip, tts)
    console.record(status="ok", name=name, file=str(voice_files.find(name)))


def renew(name: str, model: Model, opener: ModelOpener) -> None:
    """Make a saved voice again from its clip, for this version of its model or for another model."""
    saved = voice_files.load(name)
    if saved.clip is None:
        hint = f"omnitts voices rm {name}   then   omnitts voices save {name} -r CLIP"
        raise InputError(f"the file of voice '{name}' has no clip, so the voice cannot be made again", hint=hint)
    clip = reference([saved.clip], saved.voice.transcript, check=False, tell=console.notice)
    chosen = model.model or voice_files.model_of(saved.about, name)
    with opener.model(chosen, "base") as tts:
        made = tts.clone(clip)
    assert isinstance(made.identity, Cloned)
    about = {**saved.about, **{key: made.about[key] for key in ("model", "revision") if key in made.about}}
    path = voice_files.save(replace(saved, voice=made.identity, about=about), replace=True)
    console.note(f"made voice '{name}' again, in {path}")
    console.record(status="ok", name=name, file=str(path))


def rm(name: str, messages: Messages, yes: bool = False) -> None:
    """Remove a saved voice."""
    path = saved_file(name, "be removed", "omnitts voices list   shows the saved voices, which can be removed")
    if not yes and not messages.no_input and console.asks() and not console.confirm(f"remove voice {name}?"):
        return console.note(f"kept {name}")
    path.unlink()
    console.note(f"removed {name}")
    console.record(status="ok", name=name)


def export(name: str, file: str, messages: Messages, form: str | None = None) -> None:
    """Export a saved voice to a file, or a tuned one to a folder in the format of PEFT."""
    copy = f"omnitts voices blend my-{name} {name}:1 {name}:1 -m {EMBEDDED}   saves a copy, which can be exported"
    voice = voice_files.read(saved_file(name, "be exported", copy))
    if form is not None:
        return export_adapter(voice, Path(file), form)
    if Path(file).is_dir():
        raise UsageError(f"{file} is a folder", hint=f"omnitts voices export {name} {Path(file) / name}{SUFFIX}")
    if not file.endswith(SUFFIX):
        raise UsageError(f"{file} does not end in {SUFFIX}", hint=f"omnitts voices export {name} {file}{SUFFIX}")
    if Path(file).exists():
        raise InputError(f"{file} already exists", hint="choose another name")
    voice_files.write(voice, Path(file))
    console.note(f"exported {name} to {file}")
    console.record(status="ok", name=name, file=file)


def rename(name: str, new: str, messages: Messages, force: bool = False) -> None:
    """Give a saved voice another name."""
    copy = f"omnitts voices blend {new} {name}:1 {name}:1 -m {EMBEDDED}   saves a copy with that name"
    voice = voice_files.read(path := saved_file(name, "be renamed", copy))
    if new == name:
        raise UsageError(f"{name} is its name already", hint=f"omnitts voices rename {name} NEW")
    refuse_namesake(new, force)
    kept = voice_files.save(replace(voice, name=voice_files.check_name(new)))
    path.unlink()
    console.note(f"renamed {name} to {new}")
    console.record(status="ok", name=new, file=str(kept))


def saved_file(name: str, what: str, hint: str) -> Path:
    """The file of a saved voice. A voice of the model has none; the error says so, with this hint."""
    if name not in voice_files.names():
        for known, _, model in speakers(""):
            if known == name.lower():
                raise UsageError(f"{known} is a voice of the model {model} and cannot {what}", hint=hint)
    return voice_files.find(name)


def refuse_namesake(name: str, force: bool, model: str = EMBEDDED) -> None:
    """Refuses the name of a voice of the model, which a saved one would hide."""
    if force:
        return
    for known, _, of in speakers(EMBEDDED) + (speakers(model) if model != EMBEDDED and is_here(model) else []):
        if known == name.lower():
            raise UsageError(
                f"{of} has a voice '{name}', which a saved one would hide",
                hint=f"my-{known}   or the same with --force",
            )


def is_here(model: str) -> bool:
    """Whether the voices of a model can be known without downloading it."""
    try:
        speakers(model)
    except ModelError:
        return False
    return True


def export_adapter(voice: SavedVoice, folder: Path, form: str) -> None:
    """A tuned voice as a folder: its adapter as PEFT reads it, or a whole model that speaks it by its name."""
    if form not in ("peft", "model"):
        raise UsageError(f"--format {form[:40]} is not known", hint="--format peft   or   --format model")
    if voice.adapter is None:
        raise UsageError(f"voice '{voice.name}' is not tuned, so it has no adapter", hint="leave out --format")
    if folder.exists():
        raise InputError(f"{folder} already exists", hint="choose another name")
    readme = adapters.card(voice.name, voice.about)
    if form == "peft":
        adapters.write_peft(folder, voice.adapter, voice.voice.embedding, readme)
    else:
        base = find(voice.about["model"], variant="base", offline=True).folder
        assert base is not None
        write_model(base, folder, voice.name, voice.voice.embedding, readme, voice.adapter)
    console.note(f"wrote {folder}")
    console.record(status="ok", name=voice.name, folder=str(folder))


def of_adapter(folder: Path, model: str) -> SavedVoice:
    """The voice in a folder in the format of PEFT."""
    adapter, vector = adapters.read_peft(folder)
    about = {"model": model, "source": "adapter in the format of PEFT"}
    return SavedVoice(folder.resolve().name.lower(), Cloned(vector), about, None, adapter)


def import_(file: str, messages: Messages, name: str | None = None, model: str = EMBEDDED, force: bool = False) -> None:
    """Import a voice file, or a folder with an adapter."""
    if is_recording(Path(file)):
        raise InputError(f"{file} is a recording, not a voice file", hint=f"omnitts voices save NAME -r {file}")
    voice = of_adapter(Path(file), model) if Path(file).is_dir() else voice_files.read(Path(file))
    name = name or voice.name
    refuse_namesake(name, force)
    kept = voice_files.save(replace(voice, name=name))
    console.note(f"saved voice '{name}' to {kept}")
    console.record(status="ok", name=name, file=str(kept))


def blend(name: str, parts: list[str], model: Model, opener: ModelOpener, force: bool = False) -> None:
    """Blend saved voices, or the model's own, into a new one."""
    if ":" in name:  # the name of the blend is missing, or not in front
        names = [part for part in parts if ":" not in part] or ["NAME"]
        weights = [name, *(part for part in parts if ":" in part)]
        hint = f"omnitts voices blend {names[0]} {' '.join(weights)}"
        raise UsageError("the name of the new voice comes before its parts", hint=hint)
    without = [part for part in parts if ":" not in part]
    if without and len(without) < len(parts):
        equal = " ".join(f"{part.partition(':')[0]}:50" for part in parts[:2])
        raise UsageError(f"'{without[0][:80]}' has no weight", hint=f"omnitts voices blend {name} {equal}")
    wanted = voice_files.parse_blend(" ".join(f"{part}:1" if without else part for part in parts))
    voice_files.check_free(name)
    refuse_namesake(name, force)
    if {part for part, _ in wanted} <= {*voice_files.names()}:
        weighted = voice_files.load_parts(wanted)
    else:
        with opener.model(model.model, "base") as tts:
            weighted = parts_of_blend(wanted, tts.engine.model)
    path = voice_files.save(voice_files.blend(weighted, name))
    console.note(f"saved voice '{name}' to {path}")
    console.record(status="ok", name=name, file=str(path))


def may_speak(about: dict[str, str], language: str) -> bool:
    """Whether a saved voice speaks a language, as far as its file and the embedded model tell."""
    if about.get("language", language) not in (language, LANGUAGES[language]):
        return False
    return about.get("model") != EMBEDDED or bool(speakers(EMBEDDED, language))


def speakers(model: str, language: str | None = None) -> list[tuple[str, str, str]]:
    """Name, description and model of the voices of a model, if it speaks the language. Weights are not read, and a
    released model need not be on this machine.
    """
    from omnitts_cli.families.known import families, family_of

    try:
        found = here(model or EMBEDDED)
    except ModelError:
        if model:
            raise
        return []
    if isinstance(found, HubName):
        family = next((family for family in families() if found.name in family.made_up), None)
        if family is None:
            raise not_here(found)
        return voices_of(family.made_up_config(Path(found.name), found.name), found.name, language)
    if found.folder is None:
        return []
    family = family_of(found.folder)
    return voices_of(family.read_config(found.folder), found.name, language)


def voices_of(config: Any, name: str, language: str | None) -> list[tuple[str, str, str]]:
    if language is not None and LANGUAGES[language] not in config.languages:
        return []
    return [(voice, about, name) for voice, about in config.voices.items()]
