"""A model of phonemes that speaks several languages: each sentence in its own, and the language that it lacks."""

import json
from pathlib import Path

import pytest
from command import Omnitts

import omnitts_cli as omnitts_api
from omnitts_cli.request import Request

MIXED = "We have 2 cats at home. Hoy es un día muy bonito y hace 2 grados. Il 2 maggio sono andato al mare."


@pytest.fixture
def three(landed: Path) -> Path:
    """A random model in place of `tiny`, of three languages: those of an export without French and Portuguese."""
    path = landed / "config.json"
    config = json.loads(path.read_text())
    config["omnitts"] |= {"languages": ["english", "spanish", "italian"], "text_input": "phonemes-2"}
    path.write_text(json.dumps(config))
    return landed


def test_each_sentence_is_rehearsed_in_its_own_language(omnitts: Omnitts, three: Path) -> None:
    shown = omnitts("say", "--dry-run", "--json", MIXED).objects
    assert [one["spoken"].split()[k] for one, k in zip(shown, (2, 8, 1), strict=True)] == ["two", "dos", "due"]
    assert "kˈæts" in shown[0]["tokenizer_input"] and "ˈes" in shown[1]["tokenizer_input"]
    given = omnitts("say", "--dry-run", "--json", "-l", "it", MIXED).objects
    assert given[0]["spoken"].split()[2] == "due"
    tagged = '<speak>Say <lang xml:lang="es">2 días</lang> now.</speak>'
    shown = omnitts("say", "--dry-run", "--json", "--input-format", "ssml", tagged).objects
    assert [one["text"] for one in shown] == ["Say", "2 días", "now."] and "dos" in shown[1]["spoken"]


def test_the_model_is_told_the_language_of_each_sentence(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with omnitts_api.load(device="cpu") as tts:
        asked: list[str | None] = []
        submit = tts.engine.submit

        def watched(request: Request, *words: object, **named: object) -> str:
            asked.append(request.language)
            return submit(request, *words, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(tts.engine, "submit", watched)
        for text, language, expected in (
            (MIXED, "auto", ["english", "spanish", "italian"]),
            ("Hola.", "auto", ["spanish"]),
            (MIXED, "es", ["spanish"] * 3),
        ):
            asked.clear()
            assert tts.speak(text, language=language, max_frames=4, retries=0).samples.size
            assert asked == expected


def test_a_language_that_the_model_lacks_is_refused_with_those_that_it_has(omnitts: Omnitts, three: Path) -> None:
    done = omnitts("say", "-l", "fr", "Bonjour.", "-o", "a.wav", "-d", "cpu")
    assert done.code == 2 and all(name in done.err for name in ("French", "English", "Spanish", "Italian"))
    assert "Portuguese" not in done.err and not Path("a.wav").exists()


def test_a_text_in_such_a_language_is_spoken_with_a_notice(omnitts: Omnitts, three: Path) -> None:
    how = ("-o", "a.wav", "-d", "cpu", "--max-frames", "4", "--retries", "0", "--json")
    omnitts("say", "Il y a des gens qui ne sont pas dans la maison.", *how).ended(0, "French", "Italian")
    tagged = '<speak>We say <lang xml:lang="fr">2 jours</lang> here.</speak>'
    omnitts("say", "--input-format", "ssml", tagged, *how).ended(0, "French")
