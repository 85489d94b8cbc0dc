"""A family with layers of its own: parallel blocks with LayerNorm, GELU and learned positions in the talker, a
recurrent predictor, its own keys and names of tensors, one file of weights. Its length is what a new family costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.fields import HEADS, LAYERS, WIDTH, ControlIds, Fields, Speaker, SpeechConfig, TextIds
from omnitts_cli.families.common.live import Arriving
from omnitts_cli.families.common.parts import Language, Part, Parts
from omnitts_cli.families.common.refusals import no_instructions, unknown_voice, wrong_kind
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.kernels.ops import Normed, Ops
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.layers import KVCache, Stack, Tap
from omnitts_cli.models.networks import Networks
from omnitts_cli.models.parameters import random
from omnitts_cli.models.prompts import Draft, LiveRows, Place, Prompter, refuse_too_long
from omnitts_cli.models.shapes import DecoderShape, PredictorShape, StackShape, TalkerShape, TransformerShape
from omnitts_cli.models.sources import Names, One
from omnitts_cli.models.talker import Choose, Talker
from omnitts_cli.request import Request, Sampling
from omnitts_cli.voices import Named

SIZES = {
    "width": (Fields.whole, "width", WIDTH), "blocks": (Fields.whole, "blocks", LAYERS),
    "heads": (Fields.whole, "heads", HEADS), "inner": (Fields.whole, "inner", 8 * WIDTH),
    "positions": (Fields.whole, "positions", 2**16), "groups": (Fields.whole, "groups", 64, 2),
    "codes": (Fields.whole, "codes", 2**16, 2), "tokens": (Fields.whole, "tokens", 2**21, 260),
    "voices": (Fields.words, "voices"),
}  # fmt: skip
MADE_UP = {"width": 32, "blocks": 2, "heads": 4, "inner": 48, "positions": 1024, "groups": 4, "codes": 32,
           "tokens": 260, "voices": ["ann", "ben"]}  # fmt: skip


def config_of(at: Fields) -> SpeechConfig:
    """The last tokens are those of the template. After the codes come pad, begin, end and the voices."""
    sizes = at.each(SIZES)
    width, heads, groups, codes, tokens = (sizes[name] for name in ("width", "heads", "groups", "codes", "tokens"))
    at.divides("heads", heads, "width", width)
    stack = StackShape(width, sizes["inner"], sizes["blocks"], heads, heads, width // heads, 1e-5, 1.0)
    voices = {name: Speaker(codes + 3 + n, None, "a made-up voice") for n, name in enumerate(sizes["voices"])}
    transformer = TransformerShape(16, 24, 1, 2, 8)
    return SpeechConfig(
        talker=TalkerShape(stack, codes + 3 + len(voices)),
        predictor=PredictorShape(stack, width, groups, codes),
        decoder=DecoderShape(
            groups=groups, codes=codes, width=16, transformer=transformer, window=8, stretches=(2, 2), rises=(8, 5, 4),
            book_width=8, quantised=16, latent=16,
        ),
        text_vocabulary=tokens,
        text_width=16,
        text=TextIds(tokens - 4, tokens - 4, tokens - 4, tokens - 3, tokens - 2, tokens - 1),
        control=ControlIds(codes, codes + 1, codes + 2, codes, codes, codes),
        speakers=voices,
        languages=("english",),
        max_positions=sizes["positions"],
        sample_rate=8000,
        sampling=Sampling(0.9, 50, 1.0, 1.0, 0.9, 50, 1.0),
    )  # fmt: skip


class Block(nn.Module):
    """Attention and MLP side by side, from one norm."""

    def __init__(self, at: StackShape) -> None:
        super().__init__()
        self.heads, self.norm = at.heads, nn.LayerNorm(at.hidden, at.eps)
        self.qkv, self.out = nn.Linear(at.hidden, 3 * at.hidden), nn.Linear(at.hidden, at.hidden)
        self.up, self.down = nn.Linear(at.hidden, at.inner), nn.Linear(at.inner, at.hidden)

    def forward(self, x: Tensor, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        y = self.norm(x)
        queries, keys, values = self.qkv(y).unflatten(-1, (3 * self.heads, -1)).chunk(3, -2)
        return x + self.out(attend(queries, keys, values).flatten(-2)) + self.down(F.gelu(self.up(y)))


class Blocks(Stack):
    """The stack of this family: its own layers over the KV cache of all."""

    def __init__(self, at: StackShape, positions: int, ops: Ops) -> None:
        nn.Module.__init__(self)
        self.shape, self.ops, self.fused = at, ops, None
        self.places, self.norm = random(positions, at.hidden), nn.Parameter(torch.ones(at.hidden))
        self.layers = nn.ModuleList(Block(at) for _ in range(at.layers))

    def forward(self, rows: Tensor) -> Tensor:
        places, slots = torch.arange(rows.shape[1]).expand(rows.shape[:2]), torch.arange(len(rows))
        return self.cached(rows, places, slots, self.cache(*rows.shape[:2], rows.device, rows.dtype), rows.shape[1])

    def fill(self, rows: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int) -> None:
        self.cached(rows, positions, slots, cache, width)

    def cached(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cache: KVCache, width: int, tap: Tap | None = None
    ) -> Tensor:
        x, later = rows + self.places[positions], torch.arange(width, device=rows.device) > positions[..., None]
        for layer, kept_keys, kept_values in zip(self.layers, cache.keys, cache.values, strict=True):

            def attend(queries: Tensor, keys: Tensor, values: Tensor, to: Any = (kept_keys, kept_values)) -> Tensor:
                for kept, new in zip(to, (keys, values), strict=True):
                    kept[slots[:, None], :, positions] = new
                past_keys, past_values = (kept[slots, :, :width] for kept in to)
                scores = torch.einsum("bphd,bhwd->bhpw", queries, past_keys) * queries.shape[-1] ** -0.5
                return torch.einsum(
                    "bhpw,bhwd->bphd", scores.masked_fill(later[:, None], -1e9).softmax(-1), past_values
                )

            x = layer(x, attend)
        return F.layer_norm(x, x.shape[-1:], self.norm, eps=self.shape.eps)


class PlainTalker(Talker):
    """A talker without fused kernels."""

    def __init__(self, shape: TalkerShape, positions: int, ops: Ops) -> None:
        nn.Module.__init__(self)
        self.shape, self.fused = shape, None
        self.stack, self.head = Blocks(shape.stack, positions, ops), random(shape.vocabulary, shape.stack.hidden)

    def prepare(self) -> None: ...


class Recurrent(nn.Module):
    """Groups 1..G-1, one after another, through a cell that begins with the talker's hidden state."""

    fused = narrowed = project = None

    def __init__(self, shape: PredictorShape) -> None:
        super().__init__()
        self.shape, self.cell = shape, nn.GRUCell(shape.talker_hidden, shape.talker_hidden)
        self.heads = random(shape.groups - 1, shape.codes, shape.talker_hidden)

    def inputs(self, embedder: FrameEmbedder) -> list[None]:
        return [None] * self.shape.groups

    def frame(
        self, hidden: Tensor, first: Tensor, row: Normed | None, embedder: FrameEmbedder, choose: Choose
    ) -> Tensor:
        codes = [first]
        for group, head in enumerate(self.heads, 1):
            hidden = self.cell(embedder.group(group - 1, codes[-1]), hidden)
            codes.append(choose(group, hidden @ head.T, None)[0])
        return torch.stack(codes, 1)


class OwnLanguage(Language):
    """Everything between text and codes."""

    def __init__(self, config: SpeechConfig, ops: Ops) -> None:
        nn.Module.__init__(self)
        talker, predictor, width = config.talker, config.predictor, config.talker.stack.hidden
        self.talker: Talker = PlainTalker(talker, config.max_positions, ops)
        self.predictor: Any = Recurrent(predictor)
        self.embedder = FrameEmbedder(talker.vocabulary, predictor.groups, predictor.codes, width)
        self.text = TextEmbedder(config.text_vocabulary, config.text_width, width)


def parts(config: SpeechConfig, ops: Ops) -> Parts:
    with torch.device("meta"):
        language, decoder = OwnLanguage(config, ops), CodecDecoder(config.decoder)
    return Parts(
        Part(language, names(language, "lm."), "", ("codec.*",), float32=False),
        Part(decoder, names(decoder, "codec."), "", ("lm.*",)),
    )


def names(module: nn.Module, begin: str) -> Names:
    return {name: One(begin + name.replace("stack.layers", "blocks")) for name in module.state_dict()}


class OwnPrompter(Prompter):
    """The voice, then the text, one token per frame."""

    def __init__(self, config: SpeechConfig, tokenizer: TextTokenizer, language: Language, place: Place) -> None:
        super().__init__(language.text, language.embedder, config.text.pad, place)
        self._config, self._tokenizer = config, tokenizer

    def draft(self, request: Request) -> Draft:
        body = self._tokenizer.encode(request.text)
        return self._draft(request, [*body, self._config.text.end], len(body), True)

    def live(self, request: Request, first: str) -> tuple[Draft, LiveRows]:
        arriving = Arriving(self._tokenizer, first, request.language)
        known = arriving.write(first)
        rows = LiveRows(self.text, self._config.text.end, arriving.write, arriving.close)
        return self._draft(request, known or [self._config.text.begin], len(known), False), rows

    def _draft(self, request: Request, ids: list[int], spoken: int, closed: bool) -> Draft:
        if not isinstance(request.voice, Named):
            raise wrong_kind(type(request.voice).__name__.lower(), self._config.kinds)
        if request.style:
            raise no_instructions()
        name = (request.voice.speaker or next(iter(self._config.speakers))).lower()
        if name not in self._config.speakers:
            raise unknown_voice(name, self._config.speakers)
        text, codec = [self._config.text.begin, ids[0]], [self._config.speakers[name].id, self._config.control.begin]
        draft = Draft(text, codec, ids[1:], closed, spoken, shared=1)
        refuse_too_long(draft, self._config.max_positions)
        return draft


def assemble(
    name: str, config: SpeechConfig, parts: Parts, tokenizer: TextTokenizer, place: Place, ops: Ops
) -> Networks:
    language, decoder = parts.language.module, parts.decoder.module
    assert isinstance(language, Language) and isinstance(decoder, CodecDecoder)
    for part in parts.all():
        part.module.eval().requires_grad_(False)
    decoder.prepare()
    language.text.to_host()
    return parts.networks(name, config, ops, OwnPrompter(config, tokenizer, language, place))


def read_config(folder: Path) -> SpeechConfig:
    return config_of(Fields.read(folder / "config.json"))


FAMILY = Family(
    model_type="third",
    read_config=read_config,
    parts=parts,
    assemble=assemble,
    made_up=("third",),
    made_up_config=lambda file, name: config_of(Fields(file, MADE_UP)),
)
