"""omnitts doctor --kernels: which kernel runs each part of the work, why, what it gains, what would be preferred."""

from collections.abc import Iterable
from typing import Any

from omnitts_cli.settings.table import Machine
from omnitts_cli.speech.kernels import Choice, KernelQuery
from omnitts_cli.terminal.console import console


def show(machine: Machine, card: str | None, rows: int, model: str) -> None:
    """Print what runs for `rows` requests at the same time; `card`: on one that is not here."""
    asked = KernelQuery.of(model, rows, card, machine.device, machine.dtype)
    lines = merged(asked.choices())
    if not console.json:
        console.stdout.line(f"{rows} row{'s' * (rows != 1)} of {model} in {asked.precision} on {asked.where}")
    for parts, choice in lines:
        console.check("ok", f"{choice.room}, {', '.join(parts)}", said(choice), None)
    console.record(
        status="ok",
        device=asked.where,
        model=model,
        rows=rows,
        dtype=asked.precision,
        operations=[entry(parts, choice) for parts, choice in lines],
    )


def merged(choices: Iterable[Choice]) -> list[tuple[list[str], Choice]]:
    """Parts of one room that the same file runs at the same price together."""
    found: dict[tuple[str, str, str], tuple[list[str], Choice]] = {}
    for choice in choices:
        variant = choice.decision.variant
        file = variant.runs.partition(":")[0] or variant.name
        parts, _ = found.setdefault((choice.room, file, variant.price), ([], choice))
        if choice.part not in parts:
            parts.append(choice.part)
    return [*found.values()]


def said(choice: Choice) -> str:
    """The variant, what it needs, its price, and the variants that would be preferred, by the reason why they do not
    run."""
    variant, reasons = choice.decision.variant, dict[str, list[str]]()
    for one, reason in choice.decision.missed:
        reasons.setdefault(reason, []).append(one.name)
    others = "; ".join(f"not {', '.join(names)}: {reason}" for reason, names in reasons.items())
    return f"{variant.name} ({variant.needs()}): {variant.price}" + f"; {others}" * bool(others)


def entry(parts: list[str], choice: Choice) -> dict[str, Any]:
    variant = choice.decision.variant
    return {
        "room": choice.room,
        "parts": parts,
        "variant": variant.name,
        "runs": variant.runs,
        "needs": variant.needs(),
        "price": variant.price,
        "refused": [{"variant": one.name, "reason": reason} for one, reason in choice.decision.refused],
    }
