"""Snapshot: what an engine holds between two steps, copied. For tests, servers and logs."""

from dataclasses import dataclass

from omnitts_cli.engine.slots import Record, State


@dataclass(frozen=True)
class Snapshot:
    """Everything an engine holds, on the host's side."""

    requests: dict[str, Record]  # copies, in the order of submission
    free: tuple[int, ...]  # slots
    calls: bool  # another thread has asked for something that the next step will do
    sleeps: bool  # the next step would wait for such a call
    chunks: int  # waiting to be handed out by the next step
    reports: int  # of frames, in flight
    codec_jobs: int  # in flight
    prefixes: int  # prompt prefixes whose keys and values are kept

    def by_state(self, *states: State) -> list[str]:
        """The ids of the requests in these states."""
        return [one.id for one in self.requests.values() if one.state in states]

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to do; results of requests that have ended may still be in flight."""
        return not (self.requests or self.calls or self.chunks)
