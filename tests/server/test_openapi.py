"""The OpenAPI document: held to the endpoints, and to the table of fields. A client generated from it speaks."""

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from serving import Running, samples_of_say

from omnitts_cli.errors import OmniError
from omnitts_cli.server import openapi
from omnitts_cli.server.app import routes
from omnitts_cli.server.fields import FIELDS, TABLE

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -2, 7, 1e9, 2**63, "", "a", "a" * 300, "a" * 20_000, "mp3", "sse", "word",
    "Base", "auto", "off", "on", "ssml", "none", "skip", "streamed", "sentences", -16, 0.25, [], [0.5], ["x"], {},
    {"id": "ann"}, {"id": 5}, {"word": "said"}, {"word": 5}, "en", "pcm_16000",
]  # fmt: skip


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value fits a schema; the words that the document uses."""
    known = {"type", "enum", "minimum", "maximum", "maxLength", "anyOf", "items", "minItems", "maxItems",
             "properties", "required", "additionalProperties", "description"}  # fmt: skip
    assert schema.keys() <= known
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "type" in schema and (not isinstance(value, kinds[schema["type"]])
                             or (isinstance(value, bool) and schema["type"] != "boolean")):  # fmt: skip
        return False
    if isinstance(value, str):
        return len(value) <= schema.get("maxLength", 1 << 30) and value in schema.get("enum", [value])
    if isinstance(value, list):
        inside = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30)
        return inside and all(fits(one, schema.get("items", {})) for one in value)
    if isinstance(value, dict):
        more = schema.get("additionalProperties", {})
        parts = {name: schema.get("properties", {}).get(name, more) for name in value}
        return all(name in value for name in schema.get("required", ())) and all(
            fits(value[name], part) for name, part in parts.items()
        )
    return isinstance(value, bool) or value is None or (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    )  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.use in ("used", "mapped")])
def test_a_field_takes_what_its_schema_says(name: str) -> None:
    """Except that words may have any case, and that a whole number may be written as 3.0."""
    schema = openapi.schema_of(TABLE[name])
    assert schema.keys() - {"description"}
    for value in VALUES:
        try:
            taken = TABLE[name].kind.accepts(value)
        except OmniError:
            taken = False
        assert taken == fits(value, schema), (name, value)


def test_the_document_has_every_endpoint_and_every_field(server: Running) -> None:
    answer = server.request("GET", "/openapi.json")
    document = answer.json
    assert answer.status == 200 and document["openapi"].startswith("3.1")
    there = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in routes(server.state)
        for method in getattr(route, "methods", None) or ()
        if method != "HEAD"
    }
    assert {(path, method) for path, found in document["paths"].items() for method in found} == there
    names = [one["operationId"] for found in document["paths"].values() for one in found.values()]
    assert len(names) == len(set(names))
    schemas = document["components"]["schemas"]
    known = {field.name for field in FIELDS if field.use in ("used", "mapped")} - openapi.ELSEWHERE
    assert set(schemas["Speech"]["properties"]) == known
    assert set(schemas["TextToSpeech"]["properties"]) == {name for name in known if "E" in TABLE[name].of}
    used = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert used == set(schemas)


def test_pages_and_metrics_are_listed_only_where_they_are_served() -> None:
    assert {"/", "/metrics"} <= openapi.paths(web=True, metrics=True).keys()
    assert not {"/", "/metrics"} & openapi.paths(web=False, metrics=False).keys()


@pytest.mark.slow
def test_a_generated_client_speaks(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = shutil.which("openapi-python-client")
    if generator is None:
        pytest.skip("openapi-python-client is not installed")
    for needed in ("httpx", "attrs", "dateutil"):  # by what it generates
        pytest.importorskip(needed)
    (tmp_path / "openapi.json").write_bytes(server.request("GET", "/openapi.json").body)
    command = [generator, "generate", "--path", "openapi.json", "--output-path", "made", "--meta", "none"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"^Cannot parse .*", done.stdout + done.stderr, re.MULTILINE)
    assert all("Unsupported content_type audio/" in line for line in told), told  # the bytes are there all the same
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("made")
    speech = importlib.import_module("made.models").Speech
    speak = importlib.import_module("made.api.default.speak")
    with made.Client(base_url=server.url) as client:
        body = speech.from_dict({"input": "Hello there.", "seed": 7, "response_format": "pcm"})
        answer = speak.sync_detailed(client=client, body=body)
    assert answer.status_code == 200 and answer.content == samples_of_say("Hello there.")
