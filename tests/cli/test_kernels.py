"""omnitts doctor --kernels: what runs, why, its price and what would be preferred, here and on cards that are not."""

from typing import Any

import pytest
from command import Omnitts

from omnitts_cli.kernels.choose import OPERATIONS
from omnitts_cli.kernels.cpu import library

NAMES = {one.name for operation in OPERATIONS for one in operation.variants}


def asked(omnitts: Omnitts, *options: str) -> dict[str, Any]:
    done = omnitts("doctor", "--kernels", *options, "--json").ended(0)
    (record,) = done.objects
    assert record["status"] == "ok"
    return record


def room(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [one for one in record["operations"] if one["room"] == name]


def test_twelve_rows_on_an_h200_in_about_ten_lines(omnitts: Omnitts) -> None:
    done = omnitts("doctor", "--kernels", "--for", "sm_90", "-m", "1.7b", "--rows", "12")
    lines = done.out.decode().splitlines()
    assert done.code == 0 and 8 <= len(lines) <= 14
    assert "12 rows" in lines[0] and "sm_90" in lines[0] and "bf16" in lines[0]
    talker, predictor = lines[1:3]
    assert "rows_*.cu" in talker and "9 to 16 rows" in talker and "not talker.cu" in talker and "%" in talker
    assert "predictor.cu" in predictor and "not " not in predictor


@pytest.mark.parametrize(("card", "rows", "talker", "predictor"), [
    ("sm_90", 1, "talker.cu", "predictor.cu"), ("sm_90", 8, "talker.cu", "predictor.cu"),
    ("sm_90", 9, "rows_*.cu", "predictor.cu"), ("sm_90", 17, "layer by layer", "layer by layer"),
    ("sm_89", 1, "layer by layer", "layer by layer"), ("sm_75", 1, "layer by layer", "layer by layer"),
])  # fmt: skip
def test_what_runs_on_a_card_elsewhere(omnitts: Omnitts, card: str, rows: int, talker: str, predictor: str) -> None:
    record = asked(omnitts, "--for", card, "-m", "0.6b", "--rows", str(rows))
    assert room(record, "talker")[0]["variant"] == talker
    assert room(record, "predictor")[0]["variant"] == predictor
    assert all(one["variant"] in NAMES and one["price"] and one["needs"] for one in record["operations"])
    if card != "sm_90":
        reasons = {one["variant"]: one["reason"] for one in room(record, "talker")[0]["refused"]}
        assert "sm_90" in reasons["talker.cu"]


def test_this_processor(omnitts: Omnitts) -> None:
    """With the instruction sets of the library that were chosen."""
    if not library.usable():
        pytest.skip("the library of the CPU was not compiled")
    record = asked(omnitts, "-d", "cpu")
    assert {one["variant"] for one in room(record, "talker")} == {"language.c"}
    assert "8 bits:" in record["device"] and record["dtype"] == "fp32"
    large = asked(omnitts, "-d", "cpu", "-m", "1.7b")
    assert large["dtype"] == "8 bits" and room(large, "frame")[0]["variant"] == "quantised.c"


def test_a_processor_and_an_npu_that_are_not_here(omnitts: Omnitts) -> None:
    assert "AVX-512 VNNI" in asked(omnitts, "--for", "avx512", "-m", "0.6b")["device"]
    assert "dotprod" in asked(omnitts, "--for", "dotprod", "-m", "0.6b")["device"]
    record = asked(omnitts, "--for", "npu", "-m", "1.7b")
    assert {one["variant"] for one in room(record, "talker")} >= {"layer by layer", "operators.py"}


@pytest.mark.parametrize("model", ["omni", "tiny"])
def test_other_models(omnitts: Omnitts, model: str) -> None:
    record = asked(omnitts, "--for", "sm_90", "-m", model, "--rows", "4")
    assert room(record, "talker")[0]["variant"] == "layer by layer" and room(record, "codec")


@pytest.mark.parametrize("options", [
    ("--kernels", "--for", "sm90"), ("--kernels", "--for", "h100"), ("--kernels", "--rows", "0"),
    ("--kernels", "--rows", "twelve"), ("--for", "sm_90"), ("--rows", "12"),
])  # fmt: skip
def test_bad_input_is_refused_with_a_next_step(omnitts: Omnitts, options: tuple[str, ...]) -> None:
    omnitts("doctor", *options).ended(2, options[-1], "try:")
