"""Recognisers through transformers: the words are its own; what cannot be loaded."""

import json
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.speech import recognised, transcribe
from omnitts_cli.speech.hub_recogniser import HubRecogniser

pytest.importorskip("transformers")
SOUND = np.random.default_rng(0).standard_normal(32_000).astype(np.float32) * 0.1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recogniser with random weights in the usual files."""
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

    found = tmp_path_factory.mktemp("recogniser")
    names = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefgh"]
    (found / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    Wav2Vec2CTCTokenizer(str(found / "vocab.json")).save_pretrained(found)
    Wav2Vec2FeatureExtractor().save_pretrained(found)
    torch.manual_seed(1)
    config = Wav2Vec2Config(
        vocab_size=len(names), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        conv_dim=(16, 16), conv_kernel=(10, 8), conv_stride=(160, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, initializer_range=0.8, pad_token_id=0,
    )  # fmt: skip
    Wav2Vec2ForCTC(config).save_pretrained(found)
    return found


def test_the_words_are_those_of_transformers(folder: Path) -> None:
    import torch
    from transformers import AutoTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

    values = Wav2Vec2FeatureExtractor.from_pretrained(folder)(SOUND, sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        ids = Wav2Vec2ForCTC.from_pretrained(folder).eval()(values.input_values).logits.argmax(-1)[0]
    expected = AutoTokenizer.from_pretrained(folder).decode(ids, skip_special_tokens=False).strip()
    found = HubRecogniser(f"hf:{folder}", offline=True)
    assert found.words(SOUND) == expected.replace("<s>", "").replace("</s>", "").strip() != ""
    assert transcribe.recogniser(True, print, f"hf:{folder}")(SOUND) == found.words(SOUND)
    assert found.words(np.tile(SOUND, 20))  # 40 s, in parts


def test_what_is_no_recogniser_is_refused(tmp_path: Path) -> None:
    for name in (f"hf:{tmp_path}", "hf:someone/does-not-exist"):
        with pytest.raises(ModelError) as found:
            HubRecogniser(name, offline=True)
        assert found.value.hint
    with pytest.raises(UsageError):
        recognised.recognised("hf:someone/model", "en", offline=True)
