"""Settings of `omnitts batch`: the rows, where their speech goes, and how it is verified."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from omnitts_cli.settings.setting import BYTES, SWITCH, TEXT, carries, fields_of, fields_with, number, one_of, whole
from omnitts_cli.settings.table import ASR_MODEL, Machine, Output

for_files = fields_with(group="output")
for_rows = fields_with(group="rows")
for_checks = fields_with(group="rows", needs=("--verify asr",))
for_workers = fields_with(group="machine")


def same_as(group: type, default: Any, name: str) -> Any:
    """A setting as it is declared in another group."""
    return carries(default, next(field.setting for field in fields_of(group) if field.name == name))


output_setting = partial(same_as, Output)
machine_setting = partial(same_as, Machine)


@dataclass(frozen=True)
class Corpus:
    """The rows of a manifest, and the folder of their speech."""

    output_dir: str | None = for_files(
        None, "-O -o --output-dir", TEXT, "Folder or URL (s3://...) for speech and journal.", "DIR", main=True
    )
    to: str = for_files(
        "files", "--to", one_of("files", "webdataset", "parquet"), "How the speech is stored.", main=True
    )
    format: str = for_files(
        "flac", "-F --format", one_of("wav", "raw", "flac", "mp3", "opus", "ogg"), "Audio format.", main=True
    )
    sample_rate: int | None = output_setting(None, "sample_rate")
    subtype: str = output_setting("pcm16", "subtype")
    shard_size: int = for_files(10**9, "--shard-size", BYTES, "Size of a shard, such as 500MB.", "SIZE", shown="1GB")
    flat: bool = for_files(False, "--flat", SWITCH, "Put all files into one folder, instead of 256.")
    save_codes: bool = for_files(False, "--codes", SWITCH, "Save the codec codes of each row too.")
    manifest_format: str | None = for_rows(
        None, "--manifest-format", one_of("jsonl", "csv", "tsv", "parquet", "ljspeech", "lines", "folder"),
        "Kind of manifest.",
        shown="by suffix",
    )  # fmt: skip
    clips_from: str | None = for_rows(
        None, "--clips-from", TEXT, "Folder of the clips and voice files of rows.", "DIR", shown="the manifest's"
    )
    empty: str = for_rows("fail", "--empty", one_of("fail", "silence"), "How to treat a row without words.")
    ignore_unknown: bool = for_rows(False, "--ignore-unknown", SWITCH, "Skip unknown fields.")
    check_only: bool = for_rows(False, "--check", SWITCH, "Only check the manifest; load no model.", main=True)
    limit: int | None = for_rows(None, "--limit", whole(1, 10**9), "Speak at most N rows.", "N")
    only: tuple[str, ...] = for_rows(
        (), "--only", TEXT, "Speak only the row with this id. Repeatable.", "ID", many=True
    )
    retry_failed: bool = for_rows(False, "--retry-failed", SWITCH, "Retry rows that failed earlier.", main=True)
    verify_files: bool = for_rows(False, "--verify-files", SWITCH, "Check the SHA-256 of every finished file.")
    fresh: bool = for_rows(False, "--fresh", SWITCH, "Remove what earlier runs made, and begin again.")
    prune: bool = for_rows(False, "--prune", SWITCH, "Remove sound whose rows are gone from the manifest.")
    ray: str | None = for_workers(
        None, "--ray", TEXT, "Speak with several workers: local, or the address of a Ray cluster.", "ADDRESS"
    )
    workers: int | None = for_workers(
        None, "--workers", whole(1, 10_000), "Number of workers for --ray.", "N",
        shown="one per GPU; with -d cpu per core", needs=("--ray",),
    )  # fmt: skip
    yes: bool = for_rows(False, "-y --yes", SWITCH, "Do not ask before --prune or --fresh.")


@dataclass(frozen=True)
class Verification:
    """Whether a speech recogniser checks each row."""

    verify: str = for_rows(
        "none", "--verify", one_of("none", "asr"), "Check each row with a speech recogniser.", main=True
    )
    max_wer: float = for_checks(
        0.2, "--max-wer", number(0, 1), "Word error rate above which a row is spoken again.", "X"
    )
    tries: int = for_checks(3, "--tries", whole(1, 20), "Takes of a row before it counts as failed.", "N")
    keep_unverified: bool = for_rows(
        False, "--keep-unverified", SWITCH, "Do not count rows that fail verification as failed."
    )
    asr_model: str | None = carries(None, replace(ASR_MODEL, shown="small"))
    asr_device: str = for_checks("cpu", "--asr-device", one_of("cpu", "cuda"), "Where the speech recogniser runs.")


@dataclass(frozen=True)
class BatchMachine(Machine):
    """What it runs on. Nothing waits for the first sound, so chunks are long."""

    first_chunk: int = machine_setting(25, "first_chunk")
    chunk: int = machine_setting(25, "chunk")
