"""Names of models: what each means, and what is said when it means nothing. No network in this file."""

from pathlib import Path

import pytest

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.speech import tts
from omnitts_cli.weights import find as finding
from omnitts_cli.weights.find import Found, find, sample_rate
from omnitts_cli.weights.names import hub_name
from omnitts_cli.weights.released import RELEASED


@pytest.mark.parametrize(("name", "variant", "repo"), [
    ("0.6b", "base", "Qwen/Qwen3-TTS-12Hz-0.6B-Base"),
    ("0.6b", "custom_voice", "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
    ("0.6B", None, "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
    ("1.7b", "base", "Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
    ("1.7b", "custom_voice", "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"),
    ("1.7b", "voice_design", "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign"),
    ("1.7b-base", "voice_design", "Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
    ("1.7b-voice_design", None, "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign"),
    ("codec", None, "Qwen/Qwen3-TTS-Tokenizer-12Hz"),
])  # fmt: skip
def test_short_names(name: str, variant: str | None, repo: str) -> None:
    wanted = hub_name(name, variant)
    assert wanted is not None and wanted.released is not None
    assert wanted.repo == repo and wanted.revision == wanted.released.revision


def test_the_second_family_by_its_short_name() -> None:
    wanted = hub_name("Omni")
    assert wanted is not None and (wanted.name, wanted.revision, wanted.released) == ("omni", None, None)
    assert wanted.repo == "Qwen/Qwen3-Omni-30B-A3B-Instruct"
    assert wanted.tensors and wanted.tensors == hub_name(f"hf:{wanted.repo}").tensors
    assert hub_name("0.6b-base").tensors is None


def test_the_table_is_whole() -> None:
    assert all(len(model.revision) == 12 for model in RELEASED.values())
    sums = [file.sha256 for model in RELEASED.values() for file in model.files if file.sha256]
    assert all(len(total) == 64 and int(total, 16) for total in sums)
    assert len(set(sums)) == 6, "five models and one codec"
    assert round(RELEASED["1.7b-voicedesign"].size_bytes / 1e9, 1) == 4.5


def test_there_is_no_small_voice_design() -> None:
    with pytest.raises(UsageError, match=r"no 0\.6b model") as caught:
        find("0.6b", variant="voice_design")
    assert caught.value.exit_code == 2 and "1.7b" in (caught.value.hint or "")


def test_repositories_and_revisions() -> None:
    wanted = hub_name("hf:someone/a-voice@v1.0")
    assert wanted is not None and (wanted.repo, wanted.revision, wanted.released) == ("someone/a-voice", "v1.0", None)
    wanted = hub_name("hf:someone/a-voice")
    assert wanted is not None and wanted.revision is None


@pytest.mark.parametrize("name", [
    "hf:",
    "hf:a",
    "hf:a/b/c",
    "hf:../../etc",
    "hf:a/..",
    "hf:/abs/olute",
    "hf:a/b@",
    "hf:a/b@../../x",
    "hf:a/b@-rf",
    "hf:a--b/c",
    "hf:a/b\n",
    "hf:а/b",  # a Cyrillic letter
    "hf:a/b?x=1",
    "hf:" + "a" * 300 + "/b",
])  # fmt: skip
def test_names_that_no_repository_has(name: str) -> None:
    with pytest.raises(ModelError, match="is not a valid name on the Hub") as caught:
        find(name)
    assert caught.value.message.isprintable() and len(caught.value.message) < 200


@pytest.mark.parametrize(("name", "hint"), [
    ("tinny", "-m tiny"), ("1.7", "-m 1.7b"), ("0.6b-basse", "-m 0.6b-base"),
    ("someone/a-voice", "-m hf:someone/a-voice"), ("", "omnitts models list --remote"),
    ("zzz\x1b[31m", "omnitts models list --remote"), ("a\0b", "omnitts models list --remote"),
    ("x" * 5000, "omnitts models list --remote"), ("~nobody-of-this-name/x", "omnitts models list --remote"),
])  # fmt: skip
def test_unknown_names(name: str, hint: str) -> None:
    with pytest.raises(ModelError, match="not found") as caught:
        find(name)
    assert (caught.value.hint or "").startswith(hint)
    assert (caught.value.cause or "").startswith("known models: tiny, ")
    assert caught.value.message.isprintable()


def test_random_models_have_no_folder() -> None:
    assert find("random:1.7b-base", offline=True) == Found(None, "random:1.7b-base")


def test_the_sample_rate_is_known_without_opening_a_model(tmp_path: Path) -> None:
    assert [sample_rate(name) for name in ("tiny", "1.7b", "hf:nobody/nothing", "nowhere")] == [24_000] * 4
    with tts.load("random:toy", threads=1) as opened:
        assert sample_rate("random:toy") == opened.sample_rate != sample_rate("tiny")
    (tmp_path / "speech_tokenizer").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    codec = tmp_path / "speech_tokenizer" / "config.json"
    for text, rate in [
        ('{"output_sample_rate": 16000}', 16_000),
        ('{"output_sample_rate": "x"}', 24_000),
        ("{", 24_000),
    ]:
        codec.write_text(text)
        assert sample_rate(str(tmp_path)) == rate


def test_tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(finding, "TINY", tmp_path / "tiny")
    with pytest.raises(ModelError, match="is missing") as caught:
        find("tiny")
    assert "0.6b" in (caught.value.hint or "")
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"")
    assert find("tiny") == Found((tmp_path / "tiny").resolve(), "tiny")
