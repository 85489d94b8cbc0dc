"""omnitts models: lists, downloads, verifies and removes models."""

from functools import partial
from typing import Any

from omnitts_cli.errors import ModelError
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.settings.table import Messages, Network
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration
from omnitts_cli.terminal.signals import Stopped
from omnitts_cli.weights import store
from omnitts_cli.weights import verify as verifying
from omnitts_cli.weights.fetch import DownloadProgress as Fetched
from omnitts_cli.weights.released import ALIASES, LICENCE, RELEASED


def list_(messages: Messages, remote: bool = False) -> None:
    """List models with size and location."""
    here = {model.name: model for model in store.local_models()}
    rows = []

    def show(name: str, state: str, size: int | None, place: str, **more: Any) -> None:
        rows.append([name, state, "?" if size is None else readable_size(size), place])
        console.record(status="ok", name=name, state=state, bytes=size, **more)

    for model in [*here.values(), *store.kept_in_eight_bits()]:
        state, place = "ready" if model.whole else "unfinished", str(model.folder)
        show(model.name, state, model.size_bytes, place, folder=place, revision=model.revision)
    for one in [one for name, one in RELEASED.items() if remote and name not in here]:
        show(one.name, "remote", one.size_bytes, f"hf:{one.repo}", repo=one.repo, revision=one.revision)
    for name, repo in ALIASES.items():
        if remote and name not in here:
            show(name, "remote", None, f"hf:{repo}", repo=repo, revision=None)
    console.table(rows, head=["NAME", "STATE", "SIZE", "WHERE"])
    if not rows:
        console.note("no models on this machine\n  try: omnitts models list --remote")


def pull(
    name: str,
    messages: Messages,
    network: Network,
    revision: str | None = None,
    mirror: str | None = None,
    with_thinker: bool = False,
) -> None:
    """Download a model. Files that are already here are kept."""
    store.to_pull(name, thinker=with_thinker)
    if network.offline:
        typed = f"omnitts models pull {name}{' --with-thinker' * with_thinker}"
        raise ModelError(f"cannot download model '{name}': --offline is set", hint=typed)
    with Progress(f"downloading {name}", messages.progress) as progress:
        report = partial(tell, progress)
        try:
            found = store.pull(name, revision=revision, mirror=mirror, report=report, thinker=with_thinker)
        except Stopped as stopped:
            stopped.word += "; what has arrived is kept, and the same command continues"
            raise
    console.result(str(found.folder))
    console.record(status="ok", name=found.name, folder=str(found.folder), revision=found.revision)


def path(name: str, messages: Messages) -> None:
    """Print the folder of a model."""
    folder = store.path(name)
    console.result(str(folder))
    console.record(status="ok", name=name, folder=str(folder))


def verify(messages: Messages, name: str | None = None) -> None:
    """Check every file of a model against its SHA-256."""
    names = [name] if name else [model.name for model in store.local_models() if model.whole]
    problems = []
    for each in names:
        checked = store.verify(each)
        problems += [problem for problem in [verifying.problem(each, checked)] if problem]
        for file in checked:
            console.record(status="ok", name=each, file=file.path, state=file.state, note=file.note)
        console.table([[file.state, each, file.path, file.note] for file in checked])
    for problem in problems[:-1]:
        console.problem(problem)
    if problems:
        raise problems[-1]


def rm(name: str, messages: Messages, yes: bool = False) -> None:
    """Remove a downloaded model, or with NAME/q8 what was made of it."""
    weight = store.rm(name, dry_run=True)
    if (
        not yes
        and not messages.no_input
        and console.asks()
        and not console.confirm(f"remove {name}, {readable_size(weight)}?")
    ):
        return console.note(f"kept {name}")
    store.rm(name)
    console.note(f"removed {name}, {readable_size(weight)}")
    console.record(status="ok", name=name, bytes=weight)


def tell(progress: Progress, news: Fetched) -> None:
    """Shows the progress of a download; the first report prints size and folder."""
    if news.done_bytes == news.resumed_bytes:
        kept = f", {readable_size(news.resumed_bytes)} already here" if news.resumed_bytes else ""
        licence = f", licence {LICENCE}" if news.model in RELEASED else ""
        console.note(f"downloading {news.model}: {readable_size(news.total_bytes)} to {news.folder}{licence}{kept}")
    rate = news.bytes_per_s
    left = (news.total_bytes - news.done_bytes) / rate if rate else 0.0
    done, total, speed = (readable_size(count) for count in (news.done_bytes, news.total_bytes, rate))
    words = f"{done} of {total}  {speed}/s  {duration(left)} left"
    share = news.done_bytes / news.total_bytes if news.total_bytes else None
    progress.update(share, words, done_bytes=news.done_bytes, total_bytes=news.total_bytes, eta_s=round(left, 1))
