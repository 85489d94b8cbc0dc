"""The Hub: who gets the user's token."""

import pytest

from omnitts_cli.weights import hub


@pytest.mark.parametrize(("endpoint", "trusted", "sent"), [
    (None, "", True), ("https://huggingface.co", "", True), ("http://huggingface.co", "", False),
    ("https://huggingface.co.evil.example", "", False), ("https://huggingface.co@evil.example", "", False),
    ("https://mirror.example", "", False), ("https://mirror.example", "mirror.example", True),
    ("http://mirror.example", "mirror.example", False), ("https://other.example", "mirror.example", False),
    ("https://[", "", False),
])  # fmt: skip
def test_only_the_hub_and_a_trusted_mirror_get_the_token(
    endpoint: str | None, trusted: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNITTS_TRUSTED_HUB", trusted)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (hub.token_for(endpoint) is None) == sent
    if endpoint != "https://[":
        _, headers = hub.address("org/repo", "config.json", "main", endpoint)
        assert ("hf_secret" in str(headers)) == sent
