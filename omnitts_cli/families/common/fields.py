"""Config files of a model folder, read strictly: Fields, the shapes of networks, the ids of prompts, what our own
folders add, and SpeechConfig, what all families say.

Every complaint names file, key and value. One object of config.json is ours; the official package passes over it. Every
key may be left out:

    "omnitts": {
        "kinds": ["named", "cloned", "designed"],   voices that this one folder can speak
        "languages": ["english"],                   those of codec_language_id that it was trained for
        "voices": {"ann": "a calm, low voice"},     one line about a speaker
        "style": true,                              whether named voices obey an instruction
        "longest_piece": 110,                       letters of a text that it says well in one go
        "plain_letters": true,                      whether it reads English letters and ,.!?'- only, so that numbers
                                                    and signs must be written as words
        "text_input": "phonemes-en-us"              what its tokenizer reads instead of letters (or "phonemes-2", of
                                                    each language); then numbers and signs become words too
    }
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from omnitts_cli import files
from omnitts_cli.errors import ModelError
from omnitts_cli.models.shapes import (
    LEAST_FRAMES,
    ExpertShape,
    Facts,
    PredictorShape,
    StackShape,
    TalkerShape,
    TransformerShape,
    UpsamplingShape,
)
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.request import Sampling
from omnitts_cli.text.model_input import TEXT_INPUTS

# Far above every model of the family, far below what could exhaust a machine before the weights are compared.
WIDTH, LAYERS, HEADS = 2**15, 256, 256

CONFIG_BYTES = 2**20  # released config files have a few kilobytes
_NO_DEFAULT: Any = object()
Unsaid = TypeVar("Unsaid", bool, None)


class Fields:
    """Typed access to the keys of one object; `path` is where the object sits inside its file."""

    def __init__(self, file: Path, values: dict[str, Any], path: str = "") -> None:
        self.file, self.values, self.path = file, values, path

    @staticmethod
    def read(file: Path, limit: int = CONFIG_BYTES, *, optional: bool = False) -> "Fields":
        """The object in a file; an empty one if it is `optional` and not there."""
        if optional and not file.exists():
            return Fields(file, {})
        try:
            return Fields(file, json_object(read_file(file, limit)))
        except ParseError as error:
            raise ModelError(f"{file} {error}") from None

    def problem(self, key: str | None, what: str) -> ModelError:
        """The error for one key (or for the whole object), to be raised by the caller."""
        place = ".".join(part for part in (self.path, key) if part)
        return ModelError(
            f"{self.file}: {place + ': ' if place else ''}{what}",
            hint="use the file that was published with the weights",
        )

    def has(self, key: str) -> bool:
        """Whether the key has a value other than null."""
        return self.values.get(key) is not None

    def each(self, wanted: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """Several values by our names. `wanted`: for each the method that reads it, its key, and more arguments."""
        return {name: read(self, *arguments) for name, (read, *arguments) in wanted.items()}

    def part(self, key: str, default: dict[str, Any] = _NO_DEFAULT) -> "Fields":
        """The object under `key`."""
        value = self._get(key, "is not an object", lambda v: isinstance(v, dict), default)
        return Fields(self.file, value, ".".join(part for part in (self.path, key) if part))

    def whole(self, key: str, high: int, low: int = 1, default: int | None = _NO_DEFAULT) -> int:
        wrong = f"is not a whole number from {low} to {high}"
        return self._get(key, wrong, lambda v: type(v) is int and low <= v <= high, default)

    def number(self, key: str, low: float, high: float, default: float = _NO_DEFAULT) -> float:
        wrong = f"is not a number from {low:g} to {high:g}"
        return float(self._get(key, wrong, lambda v: type(v) in (int, float) and low <= v <= high, default))

    def text(self, key: str) -> str:
        return self._get(key, "is not text", lambda v: isinstance(v, str))

    def flag(self, key: str, default: Unsaid) -> bool | Unsaid:
        return self._get(key, "is neither true nor false", lambda v: isinstance(v, bool), default)

    def word(self, key: str, allowed: Sequence[str], default: str | None = _NO_DEFAULT) -> str | None:
        wrong = f"is not supported; supported: {', '.join(allowed)}"
        return self._get(key, wrong, lambda v: isinstance(v, str) and v in allowed, default)

    def must_be(self, **only: object) -> None:
        """Choices that this program knows one answer to; a missing or empty key means that answer."""
        for key, answer in only.items():
            value = self.values.get(key)
            if value is not None and (value != answer or isinstance(value, bool) != isinstance(answer, bool)):
                raise self.problem(key, f"{_shown(value)} is not supported; only {_shown(answer)} is")

    def wholes(self, key: str, high: int, longest: int, default: Sequence[int] = _NO_DEFAULT) -> tuple[int, ...]:
        """A list of 1 to `longest` whole numbers, each from 1 to `high`."""

        def right(value: Any) -> bool:
            fits = isinstance(value, list | tuple) and 1 <= len(value) <= longest
            return fits and all(type(one) is int and 1 <= one <= high for one in value)

        return tuple(self._get(key, f"is not a list of 1 to {longest} whole numbers from 1 to {high}", right, default))

    def words(self, key: str, default: tuple[str, ...] | None = _NO_DEFAULT) -> tuple[str, ...] | None:
        def right(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(one, str) and one for one in value)

        found = self._get(key, "is not a list of words", right, default)
        return None if found is None else tuple(found)

    # ---- constraints between several values

    def even(self, key: str, high: int) -> int:
        value = self.whole(key, high, 2)
        if value % 2:
            raise self.problem(key, f"{value} is odd, but is used in halves")
        return value

    def agree(self, key: str, other: int, place: str) -> None:
        if (value := self.whole(key, 2**31)) != other:
            raise self.problem(key, f"{value} does not agree with {place}, which is {other}")

    def at_most(self, what: str, value: int, most: int) -> None:
        if value > most:
            raise self.problem(what, f"{value} is more than {most}; not a model of this family")

    def divides(self, key: str, part: int, other: str, whole: int) -> None:
        if whole % part:
            raise self.problem(key, f"{part} does not divide {other}, which is {whole}")

    def _get(self, key: str, wrong: str, right: Callable[[Any], bool], default: Any = _NO_DEFAULT) -> Any:
        """The value under `key`, which must be `right`, or the default where there is none."""
        value = self.values.get(key)
        if value is None and default is not _NO_DEFAULT:
            return default
        if value is None or not right(value):
            raise self.problem(key, "is missing" if value is None else f"{_shown(value)} {wrong}")
        return value


def read_file(path: Path, limit: int) -> str:
    """A text file of a model folder, of at most `limit` bytes."""
    try:
        if not path.is_file():
            there = "is not a file" if path.exists() else "is missing"
            raise ModelError(f"{path} {there}", hint="omnitts models pull NAME")
        if path.stat().st_size > limit:
            raise ModelError(f"{path} has {path.stat().st_size} bytes; at most {limit} are expected")
        return files.read_text(path, limit)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}", cause=str(error)[:200]) from None


def _shown(value: object) -> str:
    """A value of an untrusted file, short enough for a message and without control characters."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


KEYS = 2**18  # numbers kept for one position of a request
STACK = {
    "hidden": (Fields.whole, "hidden_size", WIDTH),
    "layers": (Fields.whole, "num_hidden_layers", LAYERS),
    "heads": (Fields.whole, "num_attention_heads", HEADS),
    "kv_heads": (Fields.whole, "num_key_value_heads", HEADS),
    "head_dim": (Fields.even, "head_dim", 1024),
    "eps": (Fields.number, "rms_norm_eps", 1e-12, 0.1),
}
INNER = {"inner": (Fields.whole, "intermediate_size", 8 * WIDTH)}


def stack_shape(at: Fields, experts: ExpertShape | None = None) -> StackShape:
    """A decoder stack, with experts in the place of its MLP where there are some.

    Its rotation is the plain one: in speech, without pictures, the talker's three axes are always equal.
    """
    at.must_be(hidden_act="silu", attention_bias=False, use_sliding_window=False, tie_word_embeddings=False)
    sizes = {"inner": 0, **at.each(STACK if experts else STACK | INNER)}
    shape = StackShape(**sizes, rope_theta=rope_theta(at), experts=experts)
    at.divides("num_key_value_heads", shape.kv_heads, "num_attention_heads", shape.heads)
    at.at_most("num_attention_heads x head_dim", shape.heads * shape.head_dim, WIDTH)
    at.at_most("keys of one position", shape.layers * shape.kv_heads * shape.head_dim, KEYS)
    return shape


def rope_theta(at: Fields) -> float:
    """In the published spelling beside the scaling, in the one of newer libraries together with it."""
    newer = at.has("rope_parameters")
    scaling = at.part("rope_parameters" if newer else "rope_scaling", {})
    scaling.must_be(rope_type="default", type="default")
    return (scaling if newer else at).number("rope_theta", 1.0, 1e12)


RATE, RATES, SAMPLES_PER_FRAME, WINDOW = 64, 8, 2**15, 4096
TRANSFORMER = {name: STACK[name] for name in ("hidden", "heads")} | INNER
UPSAMPLING = {
    "width": (Fields.whole, "decoder_dim", WIDTH),
    "window": (Fields.whole, "sliding_window", WINDOW),
    "stretches": (Fields.wholes, "upsampling_ratios", RATE, RATES),
    "rises": (Fields.wholes, "upsample_rates", RATE, RATES),
}


def transformer_shape(at: Fields, eps: str, least: int = 1, shared_width: bool = False) -> TransformerShape:
    """Shape of a codec's transformer with `least` layers or more; with `shared_width` the heads divide its width."""
    more = {"layers": (Fields.whole, "num_hidden_layers", LAYERS, least), "eps": (Fields.number, eps, 1e-12, 0.1)}
    sizes = at.each(TRANSFORMER | more | ({} if shared_width else {"head_dim": STACK["head_dim"]}))
    at.agree("num_key_value_heads", sizes["heads"], "num_attention_heads")
    if shared_width:
        at.divides("num_attention_heads", 2 * sizes["heads"], "hidden_size", sizes["hidden"])
        sizes["head_dim"] = sizes["hidden"] // sizes["heads"]
    return TransformerShape(**sizes, rope_theta=rope_theta(at))


def upsampling_fields(at: Fields, groups: int, codes: int, shared_width: bool = False) -> dict[str, Any]:
    """The fields of an UpsamplingShape."""
    at.must_be(hidden_act="silu", attention_bias=False)
    at.agree("num_quantizers", groups, "talker_config.num_code_groups")
    at.agree("codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    sizes = at.each(UPSAMPLING)
    if sizes["width"] % 2 ** len(sizes["rises"]):
        what = f"{sizes['width']} cannot be halved {len(sizes['rises'])} times, once for each of upsample_rates"
        raise at.problem("decoder_dim", what)
    transformer = transformer_shape(at, "rms_norm_eps", shared_width=shared_width)
    return {"groups": groups, "codes": codes, "transformer": transformer, **sizes}


GROUPS, CODES, TOKENS, POSITIONS = 64, 2**16, 2**21, 2**20


@dataclass(frozen=True)
class TextIds:
    """Tokens that the template places by number."""

    start: int  # of a turn
    stop: int
    assistant: int
    pad: int
    begin: int
    end: int


TOKEN_KEYS = ("im_start", "im_end", "assistant", "tts_pad", "tts_bos", "tts_eos")
"""Of TextIds, as config.json spells them."""
TOKEN_WORDS = {
    "start": "<|im_start|>",
    "stop": "<|im_end|>",
    "pad": "<tts_pad>",
    "begin": "<tts_text_bos>",
    "end": "<tts_text_eod>",
}
"""Of TextIds, as the tokenizer spells them."""


def text_ids(top: Fields, vocabulary: int) -> TextIds:
    """The ids that config.json names."""
    return TextIds(*(top.whole(f"{key}_token_id", vocabulary - 1, 0) for key in TOKEN_KEYS))


def same_tokens(folder: Path, text: TextIds) -> None:
    """Raise ModelError where the tokenizer of a model folder has another word at one of the ids of config.json."""
    added = Fields.read(folder / "tokenizer_config.json", optional=True).part("added_tokens_decoder", {})
    for field, word in TOKEN_WORDS.items():
        id = getattr(text, field)
        if added.has(str(id)) and (found := added.part(str(id)).text("content")) != word:
            raise added.problem(str(id), f"{found!a} is not {word}, which config.json has at {id}")


KEY = "omnitts"  # of the object that is ours
PIECE = 10_000  # letters; far more than any slot holds
OURS = {
    "kinds": (Fields.words, "kinds", None),
    "languages": (Fields.words, "languages", None),
    "style": (Fields.flag, "style", None),
    "longest_piece": (Fields.whole, "longest_piece", PIECE, 20, None),
    "plain_letters": (Fields.flag, "plain_letters", False),
    "text_input": (Fields.word, "text_input", TEXT_INPUTS, None),
}


@dataclass(frozen=True)
class Ours:
    """The object that is ours, of a config.json; see above. None: not said."""

    at: Fields
    kinds: tuple[str, ...] | None
    languages: tuple[str, ...] | None
    style: bool | None
    longest_piece: int | None  # None: no limit beyond that of the splitter
    plain_letters: bool
    text_input: str | None  # None: the tokenizer reads letters
    voices: dict[str, str]  # by lower-case name


def ours_in(top: Fields) -> Ours:
    """The object that is ours; nothing is said where it is missing."""
    at = top.part(KEY, {})
    given, lines = at.each(OURS), at.part("voices", {})
    if given["text_input"] is not None:
        given["plain_letters"] = True
    return Ours(at, voices={name.lower(): lines.text(name) for name in lines.values}, **given)


# ---- what the configs of all families say about speaking

PARAMETERS = 2**36


@dataclass(frozen=True)
class ControlIds:
    """Entries of group 0's vocabulary that are not sound."""

    pad: int
    begin: int
    end: int
    no_think: int
    think_begin: int
    think_end: int
    think: int = -1  # before the id of a language; for families that have such ids


IN_MODEL = ("facts", "sampling", "kinds", "languages", "longest_piece", "plain_letters", "obeys_style")
"""What a SpeechModel has under the same names."""
CONTROL_KEYS = ("pad", "bos", "eos_token", "nothink", "think_bos", "think_eos")
"""Of ControlIds, as config.json spells them."""


@dataclass(frozen=True)
class Speaker:
    """A named voice: its row, and the dialect it speaks when nothing else is asked for."""

    id: int
    dialect: str | None
    about: str


@dataclass(frozen=True, kw_only=True)
class SpeechConfig:
    """The settings of a model folder, under our names."""

    talker: TalkerShape
    predictor: PredictorShape
    decoder: UpsamplingShape
    text_vocabulary: int
    text_width: int
    text: TextIds
    control: ControlIds
    speakers: dict[str, Speaker]  # by lower-case name
    languages: tuple[str, ...]  # what a request may ask for
    max_positions: int
    sample_rate: int
    sampling: Sampling
    kinds: frozenset[str] = frozenset(["named"])
    obeys_style: bool = False
    longest_piece: int | None = None  # letters
    plain_letters: bool = False
    least_frames: int = LEAST_FRAMES

    @property
    def voices(self) -> dict[str, str]:
        """Each name with one line about it."""
        return {name: speaker.about for name, speaker in self.speakers.items()}

    @property
    def facts(self) -> Facts:
        """What the engine must know."""
        return Facts(
            groups=self.predictor.groups,
            codes=self.predictor.codes,
            vocabulary=self.talker.vocabulary,
            end_code=self.control.end,
            hidden=self.talker.stack.hidden,
            sample_rate=self.sample_rate,
            samples_per_frame=self.decoder.samples_per_frame,
            max_positions=self.max_positions,
            missing_samples=self.decoder.missing_samples,
            least_frames=self.least_frames,
        )

    def model_fields(self, name: str) -> dict[str, Any]:
        """The fields of the SpeechModel called `name` that the config tells."""
        return {"name": name, "speakers": self.voices} | {field: getattr(self, field) for field in IN_MODEL}


def language_shapes(
    talker: Fields, at: Fields, experts: ExpertShape | None = None
) -> tuple[TalkerShape, PredictorShape]:
    """Talker and predictor. `at`: what describes the talker's stack."""
    predictor = talker.part("code_predictor_config")
    mine, other = stack_shape(at, experts), stack_shape(predictor)
    groups, codes = talker.whole("num_code_groups", GROUPS, 2), predictor.whole("vocab_size", CODES, 2)
    predictor.agree("num_code_groups", groups, f"{talker.path}.num_code_groups")
    shape = TalkerShape(mine, at.whole("vocab_size", CODES, codes + 1))
    return shape, PredictorShape(other, mine.hidden, groups, codes)


def control_ids(talker: Fields, shape: TalkerShape, codes: int, keys: Sequence[str] = CONTROL_KEYS) -> ControlIds:
    """The ids that config.json names."""
    return ControlIds(*(talker.whole(f"codec_{key}_id", shape.vocabulary - 1, codes) for key in keys))


DRAWN: dict[str, tuple[Any, ...]] = {
    "temperature": (Fields.number, "temperature", 0, 100, 0.9),
    "top_k": (Fields.whole, "top_k", 2**31, 0, 50),
    "top_p": (Fields.number, "top_p", 0, 1, 1.0),
    "repetition_penalty": (Fields.number, "repetition_penalty", 0.01, 100, 1.05),
}
"""The model's own way of drawing codes of group 0; the published defaults where the file is silent."""


def drawn(prefix: str) -> dict[str, tuple[Any, ...]]:
    """The same, under keys that begin with `prefix`."""
    return {name: (read, f"{prefix}{key}", *limits) for name, (read, key, *limits) in DRAWN.items()}
