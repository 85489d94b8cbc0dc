"""OmniError and its subclasses: errors for users.

Each message contains the user's own value, and the error has a cause and a next step where they exist. Exit codes are
part of the contract; only `cli/app.py` exits.
"""

from dataclasses import dataclass


class OmniError(Exception):
    """An error that the user can understand and act on. Never raised for bugs."""

    exit_code = 1
    code = "internal"
    param: str | None = None  # the field of an HTTP request that is wrong

    def __init__(
        self,
        message: str,
        *,
        cause: str | None = None,
        hint: str | None = None,
        where: tuple[str, int | None] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.hint = hint
        self.where = where  # file and line, for programs; the message says it too


class UsageError(OmniError):
    """The options contradict each other, or ask a model for what it cannot do. Nothing was touched."""

    exit_code = 2
    code = "usage"


class InputError(OmniError):
    """A text, clip, voice file, job or settings file cannot be used."""

    exit_code = 3
    code = "bad_input"


class TooLongError(InputError):
    """A recording is longer than can be used."""


class TooShortError(InputError):
    """A recording is shorter than can be used."""


class TextError(InputError):
    """A text that cannot be spoken."""

    param = "input"


class StyleError(UsageError):
    """A style that the model or the voice cannot follow."""

    param = "instructions"


class SettingsError(InputError):
    """A settings or preset file has an unknown key or a wrong value."""


class ModelError(OmniError):
    """A model is missing, damaged, or is not what its config says."""

    exit_code = 4
    code = "not_available"


class VoiceError(OmniError):
    """A voice is missing or the model cannot speak it."""

    exit_code = 4
    code = "not_available"


class DeviceError(OmniError):
    """The named device is absent, out of memory, or there is no sound output."""

    exit_code = 5
    code = "device"


class PartialError(OmniError):
    """Some of several items failed."""

    exit_code = 6
    code = "partial"


class GuardError(OmniError):
    """Speech kept running away or stayed silent after all retries."""

    exit_code = 7
    code = "guard"


class OutputError(OmniError):
    """The result cannot be written: disk full, no permission, target is a folder."""

    exit_code = 8
    code = "output"


class RegressionError(OmniError):
    """A benchmark got worse beyond the tolerance."""

    exit_code = 9
    code = "regression"


@dataclass(frozen=True)
class Notice:
    """A message about work that continues. `plain`: information, not a warning."""

    message: str
    cause: str | None = None
    hint: str | None = None
    kind: str = ""  # groups repeated notices, of which only the first few are printed
    plain: bool = False

    def __str__(self) -> str:
        return self.message
