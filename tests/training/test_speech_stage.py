"""A step of the language side is fit for capture, and a checkpoint is a beginning."""

from pathlib import Path

import pytest
import torch
from training_kit import stage_of

from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speech_stage import RESIDUAL_TABLES, STORED_HEADS, SpeechStage, one_thread
from omnitts_cli.tuning import checkpoints


def without_numbers(stage: SpeechStage) -> None:
    """Everything that a step reads becomes a shape: whoever asks it for a number gets an error."""
    for table in (*stage.dataset.tables, *stage.dataset.unnamed):
        for name, value in vars(table).items():
            if isinstance(value, torch.Tensor):
                setattr(table, name, value.to("meta"))
    for module in (stage.speech, stage.phones, stage.speaker_heads):
        module.to("meta")
    for name in ("every_token", "offsets", "weights", "losses", "gradients"):
        setattr(stage, name, getattr(stage, name).to("meta"))


def test_a_step_never_asks_for_a_number(one_length: Recipe) -> None:
    """Such a question, or a tensor from another device, would end the capture on an accelerator."""
    stage = stage_of(one_length)
    without_numbers(stage)
    stage.learn(0)
    assert stage.losses.device.type == "meta"
    with pytest.raises((RuntimeError, NotImplementedError), match=r"[Mm]eta"):
        float(stage.losses[0])


def test_what_it_draws_is_kept_for_the_next_time(one_length: Recipe) -> None:
    stage = stage_of(one_length)
    tables = stage.dataset.tables[0], stage.dataset.unnamed[0]
    for _ in range(6):
        stage.learn(0)
    for table in tables:
        frames = torch.arange(table.frames)[None] < table.facts[: table.added, 1, None]
        changed = (table.drawn[: table.added] != table.codes[: table.added]) & frames[..., None]
        # the leading group and what lies behind the end stay as they are
        assert changed[..., 1:].any() and not changed[..., 0].any()
        assert torch.equal(table.drawn[: table.added][~frames], table.codes[: table.added][~frames])
    for held in (*stage.dataset.held_back, *stage.dataset.held_back_unnamed):
        assert torch.equal(held.drawn[:-1], held.codes)


def test_it_learns_at_the_rate_in_the_journal(one_length: Recipe) -> None:
    stage = stage_of(one_length)
    before = [weight.detach().clone() for weight in stage.learned]
    stage.learn(0)
    stage.rate.fill_(0.0)
    stage.update()
    assert all(torch.equal(old, new) for old, new in zip(before, stage.learned, strict=True))
    stage.rate.fill_(0.1)
    stage.update()
    assert not torch.equal(before[0], stage.learned[0])


def test_the_number_of_threads_comes_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(OSError), one_thread(True):
            assert torch.get_num_threads() == 1
            raise OSError
        assert torch.get_num_threads() == 2
        with one_thread(False):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_checkpoint_is_a_beginning(small: Recipe, tmp_path: Path) -> None:
    old, new = stage_of(small), stage_of(small)
    with torch.no_grad():
        for weight in old.learned:
            weight.add_(1.0)
    old.save(tmp_path)
    saved = checkpoints.load(tmp_path, "speech")
    new.resume(saved)
    assert all(torch.equal(a, b) for a, b in zip(old.learned, new.learned, strict=True))
    # a checkpoint without the per-frame head loads too
    new.resume({name: t for name, t in saved.items() if not name.startswith(f"{STORED_HEADS}.along")})
    with pytest.raises(RuntimeError, match="Missing key"):
        new.resume({name: t for name, t in saved.items() if not name.startswith("phones")})


@pytest.mark.parametrize("codec", ["same", "learned on", "one other book", "unknown"])
def test_the_tables_of_another_book_are_reset(small: Recipe, tmp_path: Path, codec: str) -> None:
    old, new = stage_of(small), stage_of(small)
    with torch.no_grad():
        for weight in old.learned:
            weight.add_(1.0)
    sizes = small.codec
    books = torch.randn(sizes.groups - 1, sizes.codes, sizes.book_width)
    old.books, new.books = None if codec == "unknown" else books.half(), books.clone()
    if codec == "learned on":
        new.books += 0.05 * torch.randn_like(books)
    elif codec == "one other book":
        new.books[1] = torch.randn_like(books[1])
    own = {name: value.clone() for name, value in new.speech.state_dict().items()}
    old.save(tmp_path)
    new.resume(checkpoints.load(tmp_path, "speech"))
    assert new.tables_reset == [1] * (codec == "one other book")
    for name, value in new.speech.state_dict().items():
        wanted = old.speech.state_dict()[name].clone()
        if name in RESIDUAL_TABLES:
            wanted[new.tables_reset] = own[name][new.tables_reset]
        assert torch.equal(value, wanted), name
