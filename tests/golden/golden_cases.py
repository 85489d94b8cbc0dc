"""The golden generation cases as requests of ours: which there are, what each asked, and how near is equal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnitts_cli.request import Request, TextMode
from omnitts_cli.voices import Cloned, Designed, Named, Voice

CASES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in (Path(__file__).parent / "cases").rglob("*.json")
    if path.parent.name != "codec"
)


def asked(case: Any) -> Iterator[Request]:
    """The requests of a case, one per row of its batch."""
    said, method = case.meta["arguments"], case.meta["method"]
    texts = said["text"] if isinstance(said["text"], list) else [said["text"]]

    def row(key: str, index: int) -> Any:
        value = said.get(key)
        return value[index] if isinstance(value, list) else value

    for index, text in enumerate(texts):
        voice: Voice
        if method == "generate_custom_voice":
            voice = Named(row("speaker", index) or "")
        elif method == "generate_voice_design":
            voice = Designed(row("instruct", index) or "")
        else:
            embedding = case.tensors[f"ref.{index}.speaker_embedding"].numpy()
            codes, words = case.tensors.get(f"ref.{index}.codes"), case.meta["reference"][index]["text"]
            voice = Cloned(embedding, codes.numpy(), words) if codes is not None else Cloned(embedding)
        # the official package drops the instruction of small named models; here it is an error
        obeyed = method == "generate_custom_voice" and not case.name.startswith("custom_voice_small/")
        modes: dict[bool | None, TextMode | None] = {None: None, True: "whole", False: "streamed"}
        yield Request(
            text,
            voice,
            language=row("language", index),
            style=row("instruct", index) if obeyed else None,
            text_mode=modes[said.get("non_streaming_mode")],
        )
