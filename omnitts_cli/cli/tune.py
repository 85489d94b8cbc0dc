"""omnitts tune: teach a model a voice from a person's recordings."""

from collections.abc import Callable

from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.cli.voices import refuse_namesake
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Tuning
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Model
from omnitts_cli.speech import voice_files
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress
from omnitts_cli.terminal.signals import Stopped
from omnitts_cli.text.language import language_code
from omnitts_cli.tuning.folder import removed
from omnitts_cli.tuning.run import Tuned, TunePlan, TuneStage
from omnitts_cli.tuning.run import tune as learn

SHOWN_LEFT_OUT = 5  # names of each kind


def tune(
    recordings: str, tuning: Tuning, model: Model, opener: ModelOpener, yes: bool = False, force: bool = False
) -> None:
    """Teach a model a voice from a person's recordings."""
    if tuning.rm:
        return remove(recordings, yes or opener.messages.no_input)
    if tuning.name is None:
        raise UsageError("the voice needs a name", hint=f"omnitts tune {recordings} --name myvoice")
    refuse_namesake(voice_files.check_name(tuning.name), force)
    consent = tuning.consent
    if consent is None and not tuning.dry_run and console.asks() and not opener.messages.no_input:
        console.note("Whose voice is this, and have they agreed to it being copied? (who, and when)")
        consent = console.question()
    machine = opener.machine
    with Progress("tuning", opener.messages.progress) as progress:
        try:
            done = learn(
                recordings, tuning.name, consent=consent, model=model.model or EMBEDDED, licence=tuning.licence,
                language=language_code(tuning.language) if tuning.language else None, rank=tuning.rank,
                rate=tuning.rate, epochs=tuning.epochs, minutes=tuning.minutes, share=tuning.held_out,
                seed=tuning.seed, folder=tuning.output_dir, transcribe=tuning.transcribe, asr_model=tuning.asr_model,
                allow=tuning.allow.replace("-", " ").split(",") if tuning.allow else (),
                full=tuning.full, samples=tuning.samples, keep=tuning.keep,
                tensorboard=tuning.tensorboard, dry_run=tuning.dry_run,
                confirm=asked(progress, yes or opener.messages.no_input), tell=console.notice, look=looks(progress),
                device=machine.device, threads=machine.threads, max_memory=machine.max_memory,
                offline=opener.network.offline,
            )  # fmt: skip
        except Stopped as stopped:
            stopped.word += "; what was learned is kept, and the same command continues"
            raise
    report(done)


def remove(run: str, yes: bool) -> None:
    """Removes what a run has kept: encoded recordings, samples, what was learned. The saved voice stays."""
    if not yes and console.asks() and not console.confirm(f"remove the run {run}?"):
        return console.note(f"kept {run}")
    folder = removed(run)
    console.note(f"removed {folder}")
    console.record(status="ok", command="tune", removed=str(folder))


def asked(progress: Progress, yes: bool) -> Callable[[TunePlan], bool]:
    """Shows the plan, and at a terminal asks whether to go on."""

    def confirm(plan: TunePlan) -> bool:
        progress.clear()
        for what, words in plan.lines:
            console.note(f"{what:<11} {words}")
        return yes or not console.asks() or console.confirm("learn this voice?")

    return confirm


def looks(progress: Progress) -> Callable[[TuneStage], None]:
    """The progress line."""

    def look(stage: TuneStage) -> None:
        figures = stage.figures
        words = stage.name
        if figures:
            words += f"  epoch {figures['epoch']:.0f}  loss {figures['first']:.2f}/{figures['rest']:.2f}"
            words += f"  held out {figures['held_out']:.3f}"
        progress.update(stage.share, words, stage=stage.name, **{key: round(one, 4) for key, one in figures.items()})

    return look


def report(done: Tuned) -> None:
    """What came of it."""
    plan, compared, course = done.plan, done.compared, done.course
    if compared is None or course is None:
        if done.stopped:
            return console.note("nothing was learned")
        for what, words in plan.lines:
            console.note(f"{what:<11} {words}")
        for reason, names in [*plan.recordings.left_out.items(), *plan.recordings.doubtful.items()]:
            for name in names[:SHOWN_LEFT_OUT]:
                console.note(f"{reason}: {name}")
        return console.record(status="ok", command="tune", dry_run=True, **plan.record)
    console.note(f"held-out loss {course.first:.3f} before, {course.best:.3f} after {course.best_epoch} epochs")
    console.note(compared.words)
    if done.won:
        name = next(iter(plan.voices.values()))
        model = f"-m {done.voice} " if plan.learning.full else ""
        console.note(f"saved the tuned voice '{name}' to {done.voice}\n  try: omnitts say {model}-v {name} \"Hello\"")
    else:
        console.warning(
            f"tuning did not beat a plain clone, so '{plan.name}' is the clone",
            cause=compared.words,
            hint=f"listen to the samples in {plan.folder}" if compared.words_lost
            else "record more, or in a quieter room",
        )  # fmt: skip
    console.record(
        status="ok", command="tune", **plan.record, won=done.won, voice=str(done.voice), ended=course.ended,
        epochs=course.epoch, held_out_before=round(course.first, 4), held_out_after=round(course.best, 4),
        likeness=round(compared.tuned, 4), likeness_cloned=round(compared.cloned, 4),
        gain=round(compared.gain, 4), interval=round(compared.interval, 4),
        **({} if compared.errors is None else {
            "wer": round(compared.errors.tuned, 4), "wer_cloned": round(compared.errors.cloned, 4)
        }),
        **({} if compared.missed is None else {
            "missed": round(compared.missed.tuned, 4), "missed_cloned": round(compared.missed.cloned, 4)
        }),
    )  # fmt: skip
