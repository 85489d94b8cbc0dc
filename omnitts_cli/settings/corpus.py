"""Settings of `omnitts batch`: the rows, where their speech goes, and how it is verified."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from omnitts_cli.settings.setting import BYTES, SWITCH, TEXT, Setting, fields_of, number, one_of, whole
from omnitts_cli.settings.table import ASR_MODEL, Machine, Output

for_files = partial(Setting, group="output")
for_rows = partial(Setting, group="rows")
for_checks = partial(Setting, group="rows", needs=("--verify asr",))
for_workers = partial(Setting, group="machine")


def setting_of(group: type, name: str) -> Setting:
    """A setting as it is declared in another group."""
    return next(field.setting for field in fields_of(group) if field.name == name)


output_setting = partial(setting_of, Output)
machine_setting = partial(setting_of, Machine)


@dataclass(frozen=True)
class Corpus:
    """The rows of a manifest, and the folder of their speech."""

    output_dir: Annotated[
        str | None,
        for_files(
            "-O -o --output-dir",
            TEXT,
            "Folder or URL (s3://...) for speech and journal.",
            "DIR",
            main=True,
        ),
    ] = None
    to: Annotated[
        str, for_files("--to", one_of("files", "webdataset", "parquet"), "How the speech is stored.", main=True)
    ] = "files"
    format: Annotated[
        str, for_files("-F --format", one_of("wav", "raw", "flac", "mp3", "opus", "ogg"), "Audio format.", main=True)
    ] = "flac"
    sample_rate: Annotated[int | None, output_setting("sample_rate")] = None
    subtype: Annotated[str, output_setting("subtype")] = "pcm16"
    shard_size: Annotated[
        int, for_files("--shard-size", BYTES, "Size of a shard, such as 500MB.", "SIZE", shown="1GB")
    ] = 10**9
    flat: Annotated[bool, for_files("--flat", SWITCH, "Put all files into one folder, instead of 256.")] = False
    save_codes: Annotated[bool, for_files("--codes", SWITCH, "Save the codec codes of each row too.")] = False
    manifest_format: Annotated[
        str | None,
        for_rows(
            "--manifest-format",
            one_of("jsonl", "csv", "tsv", "parquet", "ljspeech", "lines", "folder"),
            "Kind of manifest.",
            shown="by suffix",
        ),
    ] = None
    clips_from: Annotated[
        str | None,
        for_rows("--clips-from", TEXT, "Folder of the clips and voice files of rows.", "DIR", shown="the manifest's"),
    ] = None
    empty: Annotated[str, for_rows("--empty", one_of("fail", "silence"), "How to treat a row without words.")] = "fail"
    ignore_unknown: Annotated[bool, for_rows("--ignore-unknown", SWITCH, "Skip unknown fields.")] = False
    check_only: Annotated[bool, for_rows("--check", SWITCH, "Only check the manifest; load no model.", main=True)] = (
        False
    )
    limit: Annotated[int | None, for_rows("--limit", whole(1, 10**9), "Speak at most N rows.", "N")] = None
    only: Annotated[
        tuple[str, ...], for_rows("--only", TEXT, "Speak only the row with this id. Repeatable.", "ID", many=True)
    ] = ()
    retry_failed: Annotated[bool, for_rows("--retry-failed", SWITCH, "Retry rows that failed earlier.", main=True)] = (
        False
    )
    verify_files: Annotated[bool, for_rows("--verify-files", SWITCH, "Check the SHA-256 of every finished file.")] = (
        False
    )
    fresh: Annotated[bool, for_rows("--fresh", SWITCH, "Remove what earlier runs made, and begin again.")] = False
    prune: Annotated[bool, for_rows("--prune", SWITCH, "Remove sound whose rows are gone from the manifest.")] = False
    ray: Annotated[
        str | None,
        for_workers("--ray", TEXT, "Speak with several workers: local, or the address of a Ray cluster.", "ADDRESS"),
    ] = None
    workers: Annotated[
        int | None,
        for_workers(
            "--workers",
            whole(1, 10_000),
            "Number of workers for --ray.",
            "N",
            shown="one per GPU; with -d cpu per core",
            needs=("--ray",),
        ),
    ] = None
    yes: Annotated[bool, for_rows("-y --yes", SWITCH, "Do not ask before --prune or --fresh.")] = False


@dataclass(frozen=True)
class Verification:
    """Whether a speech recogniser checks each row."""

    verify: Annotated[
        str, for_rows("--verify", one_of("none", "asr"), "Check each row with a speech recogniser.", main=True)
    ] = "none"
    max_wer: Annotated[
        float, for_checks("--max-wer", number(0, 1), "Word error rate above which a row is spoken again.", "X")
    ] = 0.2
    tries: Annotated[int, for_checks("--tries", whole(1, 20), "Takes of a row before it counts as failed.", "N")] = 3
    keep_unverified: Annotated[
        bool, for_rows("--keep-unverified", SWITCH, "Do not count rows that fail verification as failed.")
    ] = False
    asr_model: Annotated[str | None, replace(ASR_MODEL, shown="small")] = None
    asr_device: Annotated[
        str, for_checks("--asr-device", one_of("cpu", "cuda"), "Where the speech recogniser runs.")
    ] = "cpu"


@dataclass(frozen=True)
class BatchMachine(Machine):
    """What it runs on. Nothing waits for the first sound, so chunks are long."""

    first_chunk: Annotated[int, machine_setting("first_chunk")] = 25
    chunk: Annotated[int, machine_setting("chunk")] = 25
