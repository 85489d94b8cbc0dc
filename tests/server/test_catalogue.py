"""The lists of models and voices, as the clients of other servers read them."""

import urllib.parse
from collections.abc import Callable

from serving import Running

from omnitts_cli.server.models import ServedModel


def test_voices_are_objects_and_names_for_old_clients(server: Running) -> None:
    listed = server.request("GET", "/v1/audio/voices").json
    assert listed["voices"] == listed["data"]
    assert all(voice["id"] == voice["name"] for voice in listed["voices"])
    names = [voice["id"] for voice in listed["voices"]]
    assert names[:2] == ["ann", "ben"]
    for query in ("legacy=true", "x=1&legacy=1"):
        old = server.request("GET", f"/v1/audio/voices?{query}").json
        assert old["voices"] == names and old["data"] == listed["data"]
    assert server.request("GET", "/v1/audio/voices?legacy=false").json["voices"] == listed["voices"]


def test_a_model_is_found_by_its_name(server: Running) -> None:
    for entry in server.request("GET", "/v1/models").json["data"]:
        assert server.request("GET", f"/v1/models/{entry['id']}").json == entry
    assert server.request("GET", "/v1/models/random%3Atoy").json["id"] == "random:toy"
    for name in ("nothing", "org/name", "org%2Fname"):
        answer = server.request("GET", f"/v1/models/{name}")
        assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")


def test_a_name_with_slashes_is_found(serve: Callable[..., Running]) -> None:
    running = serve()
    running.state.models.all.append(ServedModel("org/name", "org/name", "custom_voice", "org/name"))
    for name in ("org/name", urllib.parse.quote("org/name", safe="")):
        assert running.request("GET", f"/v1/models/{name}").json["id"] == "org/name"
