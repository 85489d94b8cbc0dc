"""Other languages in training: their texts, their voices, and a model that learns one more and speaks it."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from command import Omnitts
from training_kit import SENTENCES, Steps

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import InputError, SettingsError, UsageError
from omnitts_cli.text.model_input import TEXT_INPUTS
from omnitts_cli.training import codec_stage, languages, recipe, speech_stage, texts
from omnitts_cli.training.__main__ import Rebuild, arguments, asked_languages
from omnitts_cli.training.ids import LANGUAGES, codec_ids
from omnitts_cli.training.judge_languages import judged_sentences
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speak_stage import _asked
from omnitts_cli.training.stage_results import exported_speech
from omnitts_cli.training.team import Team
from omnitts_cli.training.tokens import TokenLists

WRITTEN = {
    "es": "La casa es grande. ¿Dónde está el perro?\n- El tren llega a las 7…\nx = {1}\n",
    "fr": "La maison est grande.\nUn bon vin blanc.\n",
    "it": "La casa è grande.\nIl cane dorme.\n",
    "pt": "A casa é grande.\nO cão dorme.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for language, written in WRITTEN.items():
        (tmp_path / f"{language}.txt").write_text(written, encoding="utf-8")
    (tmp_path / "es.words").write_text("queso\nOTAN\npaella\n", encoding="utf-8")
    return tmp_path


def test_sentences_are_cut_and_spelled_out_and_some_are_made_up(folder: Path, tmp_path: Path) -> None:
    """Strange ones are left out; those that are made up have the listed words."""
    found = {line.text for line in languages.collect(folder, "es", 0, 1, ["la casa es grande"])}
    assert found == {"¿Dónde está el perro?", "El tren llega a las siete."}
    said = " ".join(line.text for line in languages.collect(folder, "es", 60, 1)).lower()
    assert "queso" in said and "paella" in said and "otan" not in said
    (folder / "it.txt").unlink()
    with pytest.raises(InputError, match=r"it\.txt"):
        languages.collect(folder, "it", 1, 1)


@pytest.mark.parametrize("language", WRITTEN)
def test_all_judged_sentences_can_be_read_by_the_teacher(language: str) -> None:
    judged = judged_sentences(language)
    assert len(judged) == len(set(judged)) == 40
    assert all(languages.line_of(text, language) for text in judged)


def test_lines_have_two_readings_and_come_back_as_they_were_written(tmp_path: Path) -> None:
    line = languages.line_of("Un bon tchèque.", "fr")
    assert line is not None and line.said.startswith("œ̃ bˈɔ̃ ʧ") and line.read.startswith("œⁿ bˈɔⁿ tʃ")
    lines = [texts.TrainingLine("Oh no.", "ˈO nˈO.", "ˈQ nˈQ."), languages.line_of("Un bon vin.", "fr")]
    texts.write(tmp_path / "texts.tsv", lines)  # type: ignore[arg-type]
    assert texts.read(tmp_path / "texts.tsv") == lines


def test_a_voice_keeps_its_pitch_in_another_language() -> None:
    made = recipe.read(languages=True)
    french = next(one for one in made.languages if one.code == "fr")
    for voice in made.voices:
        spoken = languages.voice_in(voice.made, french)
        assert abs(sum(share for _, share in spoken.mix) - 1) < 1e-9 and np.isnan(spoken.british)
        before, after = (
            one.pitch * languages.hertz(part) for one, part in ((voice.made, voice.made.mix), (spoken, spoken.manner))
        )
        assert after == pytest.approx(before)


def test_each_language_has_its_share(folder: Path) -> None:
    made, draw = recipe.read(languages=True), random.Random(0)
    numbers = {code: [place] for place, code in enumerate(LANGUAGES)}
    asked = _asked(draw, made, ("af_heart", "am_michael", "bf_emma", "bm_george"), numbers, 4000)
    for one in made.languages:
        found = sum(text == LANGUAGES.index(one.code) for text, *_ in asked) / len(asked)
        assert found == pytest.approx(one.share, abs=0.03)
    english = [voice for text, _, _, voice in asked if text == 0]
    assert english and not any(voice.manner for voice in english)


def an_english_one(made: Recipe, work: Path) -> Rebuild:
    torch.manual_seed(0)
    rebuild = Rebuild(made, work, CPUDevice(1), None, Team())
    texts.write(work / "texts.tsv", [texts.TrainingLine(text, text, text) for text in SENTENCES])
    TokenLists.learn(SENTENCES, 40).write(work)
    rebuild.speak(0, 0.03, None)
    rebuild.codec(0.05)
    rebuild.speech(0.05)
    rebuild.export()
    return rebuild


def test_a_finished_model_learns_more_languages_and_speaks_them(
    hummer: type, tmp_path: Path, omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In miniature, with a teacher that hums."""
    for module in (codec_stage, speech_stage):
        monkeypatch.setattr(module, "Budget", Steps)
    made = recipe.read(miniature=True)
    made = replace(made, teacher=replace(made.teacher, kept=0.004, shard=80, longest=6.0))
    first = an_english_one(made, tmp_path / "first")
    more = recipe.read(miniature=True, languages=True)
    more = replace(more, teacher=made.teacher)
    later = Rebuild(more, tmp_path / "later", CPUDevice(1), None, Team())
    for name in ("texts.tsv", "vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(first.work / name, later.work)
    shutil.copytree(first.work / "tiny", later.work / "tiny")
    sentences = tmp_path / "sentences"
    sentences.mkdir()
    for language, written in WRITTEN.items():
        (sentences / f"{language}.txt").write_text(written, encoding="utf-8")
    with pytest.raises(UsageError):
        later.texts()
    later.texts(None, sentences)
    later.texts(None, sentences)  # nothing is missing any more
    known, tokens = TokenLists.read(first.work), TokenLists.read(later.work)
    assert tokens.size > known.size
    later.speak(1, 0.06, None)
    later.speech(0.05)
    curves = (later.work / "curves.jsonl").read_text()
    assert any(f'"held_{code}"' in curves for code in LANGUAGES)
    kept = exported_speech(made, known, first.work / "tiny").state_dict()["embedder.first"]
    later.export()
    learned = exported_speech(more, tokens, later.work / "tiny").state_dict()["embedder.first"]
    ids = codec_ids(more)
    assert not torch.equal(learned[ids.english + 1], kept[ids.english + 1])
    config = json.loads((later.work / "tiny" / "config.json").read_text())
    assert config["omnitts"]["text_input"] == TEXT_INPUTS[1] and "portuguese" in config["omnitts"]["languages"]
    assert config["talker_config"]["codec_language_id"]["spanish"] == ids.english + 1
    by_the_command(later.work / "tiny", omnitts)
    fewer = Rebuild(replace(more, languages=more.languages[:1]), later.work, CPUDevice(1), None, Team())
    fewer.export()
    done = omnitts("say", "-l", "fr", "Bonjour.", "-m", str(later.work / "tiny"), "-o", "a.wav", "-d", "cpu")
    assert done.code == 2 and "Spanish" in done.err and "Italian" not in done.err
    config = json.loads((later.work / "tiny" / "config.json").read_text())
    assert config["talker_config"]["codec_language_id"] == {"english": ids.english, "spanish": ids.english + 1}


def test_a_recipe_may_have_some_of_the_languages() -> None:
    assert [one.code for one in recipe.read(languages=["pt", "es"]).languages] == ["es", "pt"]
    assert recipe.read(languages=["es"]).speech_training == recipe.read(languages=True).speech_training
    assert recipe.read(languages=[]).languages == () == recipe.read().languages
    with pytest.raises(SettingsError, match="nl"):
        recipe.read(languages=["es", "nl"])
    for given, wanted in (([], False), (["--languages"], True), (["--languages", "es"], ["es"])):
        assert asked_languages(arguments().parse_args(["export", *given, "--work", "w"]).languages) == wanted


def by_the_command(model: Path, omnitts: Omnitts) -> None:
    for words in (["-l", "es", "Hola, ¿qué tal? 7 días."], ["La maison est grande et le vin est bon."], ["Why not?"]):
        omnitts("say", *words, "-m", str(model), "-o", "a.wav", "-d", "cpu", "--max-frames", "5").ended(0)
        assert len(soundfile.read("a.wav")[0]) > 0
        Path("a.wav").unlink()
    omnitts("say", "-l", "de", "Guten Tag.", "-m", str(model), "-o", "a.wav", "-d", "cpu").ended(2, "Spanish")
