"""POST and DELETE of voices: saved from a clip, a voice file, the values of an embedding, or a description."""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.parse import ParseError, json_value
from omnitts_cli.server.body import Receive, Scope, Send, header, read_body
from omnitts_cli.server.catalogue import send_json, uploaded_entry
from omnitts_cli.server.clips import opened
from omnitts_cli.server.fields import TABLE
from omnitts_cli.server.models import ServedModel
from omnitts_cli.server.problems import Problem, invalid
from omnitts_cli.server.speak import chunks
from omnitts_cli.server.state import ServerState
from omnitts_cli.server.voices import MOST_SAVED, OPENAI, of_values, own_name
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import reference, voice_files
from omnitts_cli.speech.clip import Clip, join
from omnitts_cli.speech.script import Written
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.inputs import pieces_of_text

FORM_BYTES = 64 << 10  # of a form besides its file
MOST_FIELDS = 16
LONGEST = {"consent": 500, "ref_text": 10_000, "speaker_description": 500, "design": 2000, "seed": 20, "name": 64,
           "speaker_embedding": FORM_BYTES}  # fmt: skip
LONGEST_TYPE = 100
SAMPLE = ("The quick brown fox jumps over the lazy dog. She sells sea shells by the shore, "
          "and five wise men walked home through the quiet town.")  # fmt: skip
"""The text that a described voice speaks once; the recording is then cloned."""
WRITABLE = ("audio_sample", "voice_file")
SOURCES = (*WRITABLE, "speaker_embedding", "design")


async def save_voice(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any]:
    """POST /v1/audio/voices: saves a voice."""
    allowed(state)
    form = await read_form(scope, receive, state.options.max_upload)
    name, again = checked_name(state, form), form.get("replace", "").lower() in ("true", "1", "yes")
    if name in state.saved.names() and not again:
        raise taken(name)
    with state.call(scope["omnitts.client"], scope.get("omnitts.transport")) as call:
        voice = await voice_in(state, call, form)
        kept = about(form, voice)  # with the type of the clip, for clients of vLLM-Omni
        saved = voice_files.SavedVoice(name, voice.identity, kept, voice.clip)  # type: ignore[arg-type]
        try:
            await asyncio.to_thread(voice_files.save, saved, replace=again)
        except InputError as error:  # another client was faster
            raise taken(name) if name in voice_files.names() else error from None
    state.saved.changed()
    entry = uploaded_entry(state, name)
    for key in ("model", "language"):
        entry.pop(key, None)
    return {"success": True, "voice": entry}


def checked_name(state: ServerState, form: dict[str, Any]) -> str:
    """The name of a voice that may be saved."""
    try:
        name = voice_files.check_name(str(form.get("name", "")))
    except OmniError as error:
        raise invalid("name", error.message, error.hint) from None
    speakers = [one for model in state.models.loaded for one in model.speech.speakers]
    if own_name(name, speakers) or name in OPENAI:
        raise Problem(409, f"'{name}' is a voice of the model", code="voice_exists", param="name")
    if len(state.saved.names()) >= MOST_SAVED:
        raise Problem(400, f"there are {MOST_SAVED} saved voices", code="too_many_voices")
    return name


async def voice_in(state: ServerState, call: Any, form: dict[str, Any]) -> Voice:
    """The voice that a form describes."""
    given = [part for part in SOURCES if form.get(part)]
    if len(given) != 1:
        raise invalid("audio_sample", f"give one of {', '.join(SOURCES)}")
    if given[0] in ("audio_sample", "speaker_embedding") and not form.get("consent", "").strip():
        raise invalid("consent", "consent is missing: who agreed, and when")
    model = await state.models.of_kind(form.get("model") or None, "cloned")
    model.active += 1
    call.model = model
    if given == ["design"]:
        return await designed(state, call, model, form)
    if given == ["speaker_embedding"]:
        await state.models.ready(model)
        return of_values(values_of(form["speaker_embedding"]), model.speech)
    data: bytes = form[given[0]]
    if given == ["voice_file"]:
        return await asyncio.to_thread(opened, data, model)
    return await state.clips.cloned(model, await state.clips.decoded(data), form.get("ref_text") or None)


async def designed(state: ServerState, call: Any, model: ServedModel, form: dict[str, Any]) -> Voice:
    """The clone of a described voice that has spoken once."""
    seed = form.get("seed") or "0"
    if not seed.isdecimal() or int(seed) > 2**63 - 1:
        raise invalid("seed", "seed is not a whole number")
    designer = await state.models.of_kind(form.get("model") or None, "designed")
    designer.active += 1
    try:
        tts = await state.models.ready(designer)
        speech = Speech(seed=int(seed), language="en")
        call.stream = tts.open(
            Written(pieces_of_text(SAMPLE), len(SAMPLE)), tts.design(form["design"]), TextIn(), speech,
            safe=True, urgent=True, client=call.client, notify=lambda: state.hub.mark(call.news),
        )  # fmt: skip
        parts = [chunk.samples async for chunk in chunks(call)]
    finally:
        designer.active -= 1
    clip = Clip(join(parts), tts.sample_rate, int(seed))
    voice = await state.clips.cloned(model, reference.of_clip(clip), None)
    source = f"design: {form['design']}"[: LONGEST["speaker_description"]]  # as much as a voice file keeps
    return replace(voice, about={**voice.about, "source": source})


def values_of(text: str) -> np.ndarray:
    """The values of an embedding in a form, where they are JSON."""
    try:
        values = json_value(text)
    except ParseError as error:
        raise invalid("speaker_embedding", f"speaker_embedding {error}") from None
    return np.array(TABLE["speaker_embedding"].read(values), np.float32)


def taken(name: str) -> Problem:
    """409 for the name of a saved voice."""
    hint = "replace=true overwrites it"
    return Problem(409, f"voice '{name}' already exists", code="voice_exists", param="name", hint=hint)


def about(form: dict[str, Any], voice: Voice) -> dict[str, str]:
    """The fields that are kept beside a voice."""
    made = time.strftime("%Y-%m-%d", time.gmtime())
    found = {**voice.about, "made": made, "consent": form.get("consent", "").strip()}
    if kind := form.get("mime_type"):
        found["mime_type"] = kind
    if clip := form.get("audio_sample"):
        found["file_size"] = len(clip)
    if description := form.get("speaker_description", "").strip():
        found["source"] = description
    return {key: str(value) for key, value in found.items() if value and key in voice_files.FIELDS}


def allowed(state: ServerState) -> None:
    """403 unless clients may save and delete voices."""
    if not state.guard.uploads:
        raise Problem(403, "this server does not let clients change its voices", code="uploads_off",
                      hint="--allow-upload on")  # fmt: skip


async def read_form(scope: Scope, receive: Receive, largest: int) -> dict[str, Any]:
    """The fields of a multipart form: one file at most, kept in memory."""
    if header(scope, b"content-type").partition(";")[0].strip().lower() != "multipart/form-data":
        raise Problem(415, "the body is not multipart/form-data", code="unsupported_media_type")
    body = await read_body(scope, receive, largest + FORM_BYTES)

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(Headers(raw=list(scope["headers"])), stream(), max_files=1, max_fields=MOST_FIELDS,
                             max_part_size=FORM_BYTES)  # type: ignore[arg-type]  # fmt: skip
    parser.spool_max_size = len(body) + 1  # never a file on disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise invalid(None, error.message) from None
    found: dict[str, Any] = {}
    for key, value in form.multi_items():
        if isinstance(value, UploadFile):
            found[key], found["mime_type"] = await value.read(), (value.content_type or "")[:LONGEST_TYPE]
            if key not in WRITABLE:
                raise invalid(key[:80], "this field is not a file", f"files: {', '.join(WRITABLE)}")
        elif len(value) > LONGEST.get(key, 1000):
            raise invalid(key[:80], f"{key[:80]} has more than {LONGEST.get(key, 1000)} characters")
        else:
            found[key] = value
    if any(isinstance(found.get(name, b""), str) for name in WRITABLE):
        raise invalid("audio_sample", "audio_sample and voice_file are files")
    return found


async def delete_voice(state: ServerState, scope: Scope, receive: Receive, send: Send) -> dict[str, Any] | None:
    """DELETE /v1/audio/voices/NAME: deletes a saved voice."""
    allowed(state)
    name = scope["path_params"]["name"]
    if name in state.saved.names():
        path = voice_files.find(name)
        await asyncio.to_thread(remove, path)
        state.saved.changed()
        return {"success": True, "message": f"Voice '{name}' deleted successfully"}
    speakers = [one for model in state.models.loaded for one in model.speech.speakers]
    if own_name(name, speakers) or name in OPENAI:
        raise Problem(403, f"'{name}' is a voice of the model", code="built_in", param="name")
    await send_json(send, {"success": False, "error": f"Voice '{name[:80]}' not found"}, 404)
    return None


def remove(path: Any) -> None:
    """Removes a file."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot delete {path.name}: {(error.strerror or '').lower()}") from None
