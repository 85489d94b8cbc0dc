"""The stages on all cards of one machine: which run side by side, on which cards.

1. `teacher` and `texts`, unless their files are there.
2. On every card a teacher speaks, and on the CPU `record` writes the recordings of people, if there are any.
3. As soon as every card has speech, all cards train the codec as a team.
4. The last card polishes the decoder of that codec, in the folder `polish`, and all others train the language side as a
   team: neither needs what the other makes. One card does one after the other.
5. `export`, with the polished decoder, and `rows`.

The work folder is all there is to know: `cards.jsonl` names the stages that have ended, which are not repeated. A stage
that was interrupted goes on from its last checkpoint, with all its minutes.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

from omnitts_cli.errors import PartialError, UsageError
from omnitts_cli.training.picture import lines_of
from omnitts_cli.training.pool import FOLDER
from omnitts_cli.training.stage_results import CODEC_FOLDER, MODEL, STEM
from omnitts_cli.tuning.journal import Journal

TRAINING = ("-m", "omnitts_cli.training")
TEAM = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
"""What Python runs: a stage, and the members of a team."""
POLISH = "polish"
"""The folder in which the decoder is polished: beside it, the language side learns with the codec as it was."""
LOOK_S = 0.1  # between two looks at the processes
STOPPING_S = 40.0  # torchrun gives its members 30 s to end
LAST_LINES = 15  # of the log of a process that failed
REPORT = re.compile(r"E\d{4} .*torch/distributed/elastic/multiprocessing/api\.py:\d+\] failed \(exitcode")
"""The first line of torchrun's long report of a failure. What the member that failed said is before it."""
GOES_ON = "the same command goes on where this one stopped"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignal(PartialError):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}", hint=GOES_ON)
        self.exit_code = 128 + number


class Processes:
    """Processes with a name, a log and a cache of compiled kernels each. As a context manager it ends those that still
    run when it is left, as by an error or a signal."""

    def __init__(self, work: Path) -> None:
        self._logs, self._caches = work / "log", work / "cache"
        self._logs.mkdir(parents=True, exist_ok=True)
        done = work / "cards.jsonl"
        self.ended = {line["ended"] for line in lines_of(done) if "ended" in line} if done.exists() else set[str]()
        self._journal = Journal(done, "cards")
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._began: dict[str, int] = {}
        self._asked: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Processes:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background
                self._handlers[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(list(self._running))
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """Only notes the signal: an exception could come between the start of a process and its entry in the list."""
        self._asked = number

    def start(self, name: str, command: Sequence[str], lower_priority: bool = False) -> None:
        """Starts a process, unless one of this name has ended before."""
        if name in self.ended:
            return
        cache = self._caches / name
        before = ("env", f"TORCHINDUCTOR_CACHE_DIR={cache.absolute()}", *(("nice", "-n", "5") * lower_priority))
        with self._log(name).open("ab") as log:
            log.write(f"$ python {' '.join(command)}\n".encode())
            self._began[name] = log.tell()
            log.flush()
            self._running[name] = self._process([*before, sys.executable, *command], log)
        self._journal.write(started=name)

    def _process(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """In a session of its own, so that Ctrl-C reaches this process alone."""
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def wait(self, *names: str) -> None:
        """Waits until these have ended."""
        self.until(lambda: self._running.keys().isdisjoint(names))

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition is true, and raises an error as soon as any process has failed."""
        while not condition():
            if self._asked is not None:
                raise StoppedBySignal(self._asked)
            for name, process in list(self._running.items()):
                if (code := process.poll()) is not None:
                    del self._running[name]
                    if code:
                        raise self._failure(name, code)
                    self.ended.add(name)
                    self._journal.write(ended=name)
            time.sleep(LOOK_S)

    def _failure(self, name: str, code: int) -> PartialError:
        log = self._log(name)
        with log.open("rb") as file:
            file.seek(self._began[name])
            lines = file.read().decode("utf-8", "replace").splitlines()
        last = next((number for number, line in enumerate(lines, 1) if REPORT.match(line)), len(lines))
        end = lines[:last][-LAST_LINES:]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
        hint = f"its log is {log}; {GOES_ON}"
        return PartialError(f"{name} {how}", cause="\n".join(["", *end]), hint=hint)

    def running(self, *names: str) -> bool:
        return any(name in self._running for name in names)

    def stop(self, names: Sequence[str]) -> None:
        """Ends processes. torchrun passes the signal on to the members of its team."""
        stopped = [self._running.pop(name) for name in names if name in self._running]
        for process in stopped:
            process.terminate()
        patience = time.monotonic() + STOPPING_S
        for process in stopped:
            try:
                process.wait(max(0.0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


class OnCards:
    """The stages of a work folder on the cards of a machine. `words`: what is typed for a stage with these options."""

    def __init__(self, given: Namespace, kind: str, words: Callable[[str, Namespace], list[str]]) -> None:
        self._given, self._kind, self._words = given, kind, words
        self._work, self._cards = given.work, range(given.cards)
        self._processes = Processes(given.work)

    def train(self) -> None:
        with self._processes as processes:
            for stage in ("teacher", "texts"):
                self._start(stage, stage)
                processes.wait(stage)
            if not processes.ended >= {"codec", "polish", "speech"}:
                self._learn(processes)
            polished = self._work / POLISH
            self._start("export.decoder", "export", work=polished, decoder=None, share=1.0)
            processes.wait("export.decoder")
            self._start("export", "export", decoder=polished / MODEL / CODEC_FOLDER)
            processes.wait("export")
            self._start("rows", "rows", self._cards[:1])
            processes.wait("rows")

    def _learn(self, processes: Processes) -> None:
        speakers = {f"speak.{card}": card for card in self._cards}
        if self._given.recordings:
            self._start("record", "record")
        for name, card in speakers.items():
            self._start(name, "speak", [card], lower_priority=True, series=self._given.series + card)
        if "codec" not in processes.ended:
            shutil.rmtree(self._work / POLISH, ignore_errors=True)  # of another codec
            processes.until(lambda: self._everyone_has_speech() or not processes.running(*speakers))
            if not self._everyone_has_speech():
                raise UsageError(f"there is too little speech for {len(self._cards)} cards", hint="more --hours")
            self._start("codec", "codec", self._cards)
            processes.wait("codec")
        self._begin_polish()
        self._start("polish", "polish", self._cards[-1:], work=self._work / POLISH)
        if len(self._cards) == 1:
            processes.wait("polish")
        self._start("speech", "speech", self._cards[:-1] or self._cards)
        processes.wait("polish", "speech")
        # no stage learns any more from what they would still say
        processes.stop(["record", *speakers])

    def _everyone_has_speech(self) -> bool:
        """Whether a teacher has spoken a shard for each member of a team: its number says whose it is (`pool.py`)."""
        names = (path.stem.rsplit("-", 1) for path in (self._work / FOLDER).glob("*.safetensors"))
        members = {int(number) % len(self._cards) for series, number in names if series != "record"}
        return len(members) == len(self._cards)

    def _begin_polish(self) -> None:
        """The folder with a copy of the codec's checkpoint, and with the same speech."""
        folder, new = self._work / POLISH, self._work / f"{POLISH}.new"
        if folder.exists():
            return
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for part in self._work.glob(f"{STEM}.*.safetensors"):
            shutil.copy(part, new)
        (new / FOLDER).symlink_to((self._work / FOLDER).absolute())
        new.rename(folder)

    def _start(
        self, name: str, stage: str, cards: Sequence[int] = (), lower_priority: bool = False, **options: Any
    ) -> None:
        """Starts a stage on the CPU, on one card, or as a team on several, which are the first ones."""
        device = "cpu" if not cards else self._kind
        if len(cards) == 1 and self._kind != "cpu":
            device = f"{self._kind}:{cards[0]}"
        words = self._words(stage, Namespace(**{**vars(self._given), "device": device, **options}))
        team = (*TEAM, str(len(cards))) if len(cards) > 1 else ()
        self._processes.start(name, [*team, *TRAINING, *words], lower_priority)
