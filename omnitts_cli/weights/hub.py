"""The only file that talks to the Hugging Face Hub: what a repository holds, and errors as ModelError.

huggingface_hub is imported late. It handles the cache folder, the endpoint (HF_ENDPOINT), tokens and proxies.
"""

import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from omnitts_cli.errors import ModelError
from omnitts_cli.settings.environment import TRUSTED_HUB, variable
from omnitts_cli.weights.header import INDEX, shown
from omnitts_cli.weights.released import ReleasedFile

HOST = "huggingface.co"
ANSWER_S = 10.0  # timeout of one request
WAITS_S = (1.0, 4.0)  # between attempts
UNKNOWN = "Name or service not known"  # some versions of the library keep nothing but the words
_BUSY = (408, 429, 500, 502, 503, 504)

_ROOT_FILES = ("vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_CONFIG_FILES = ("config.json", "generation_config.json", "preprocessor_config.json", INDEX)


@dataclass(frozen=True)
class CommitFiles:
    """The files of one commit of a repository, as far as we need them."""

    repo: str
    commit: str
    files: tuple[ReleasedFile, ...]


def needed(path: str) -> bool:
    """Whether a file of a repository is downloaded: not code, pictures or other weight formats."""
    where = PurePosixPath(path)
    if where.parent.as_posix() not in (".", "speech_tokenizer"):
        return False
    weights = where.name.startswith("model") and where.suffix == ".safetensors"
    return weights or where.name in _CONFIG_FILES or where.name in _ROOT_FILES


def cache_folder(repo: str) -> Path:
    """The folder of one repository in the Hub cache."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(repo_id=repo, repo_type="model")


def told_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids the network."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def listing(repo: str, revision: str | None, endpoint: str | None) -> CommitFiles:
    """The commit and files of a `revision` (None: the main branch) of a repository."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, library_name="omnitts", token=token_for(endpoint))
    with asking(repo):
        info = _patiently(
            lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=ANSWER_S),
        )
        files = tuple(_file(sibling) for sibling in info.siblings or () if needed(sibling.rfilename))
        if not info.sha:
            raise ValueError("the answer does not name a commit")
    return CommitFiles(repo, info.sha, files)


def _file(sibling: Any) -> ReleasedFile:
    large = sibling.lfs
    return ReleasedFile(sibling.rfilename, int(sibling.size or 0), None if large is None else str(large.sha256))


def link(repo: str, path: str, commit: str, endpoint: str | None) -> Path:
    """The path of one file in the cache; downloads it if it is missing."""
    from huggingface_hub import hf_hub_download

    with asking(repo):
        return Path(
            _patiently(
                lambda: hf_hub_download(
                    repo, path, revision=commit, endpoint=endpoint, etag_timeout=ANSWER_S, token=token_for(endpoint)
                )
            )
        )


def address(repo: str, path: str, commit: str, endpoint: str | None) -> tuple[str, dict[str, str]]:
    """The URL of a file, and the headers of the request."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    return hf_hub_url(repo, path, revision=commit, endpoint=endpoint), build_hf_headers(
        library_name="omnitts", token=token_for(endpoint)
    )


def token_for(endpoint: str | None) -> bool | None:
    """Whether the user's token may be sent: None for the Hub itself or a host that the user trusts, and https; else
    False. A mirror would have the token, and without https everyone on the way.
    """
    from huggingface_hub import constants

    try:
        parts = urlsplit(endpoint or constants.ENDPOINT)
        host = (parts.hostname or "").lower()
    except ValueError:
        return False
    trusted = (HOST, (variable(TRUSTED_HUB) or HOST).lower())
    return None if parts.scheme == "https" and host in trusted else False


def _patiently(ask: Callable[[], Any]) -> Any:
    """Retry with growing delays if the Hub is busy or the connection fails."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    for wait in WAITS_S:
        try:
            return ask()
        except failures() as error:
            # hf_hub_download raises LocalEntryNotFoundError if it could not reach the Hub
            status = _status(error)
            gone = status is not None or isinstance(error, LocalEntryNotFoundError)
            if (gone and status not in _BUSY) or isinstance(error, ValueError) or has_no_address(error):
                raise
        time.sleep(wait)
    return ask()


def has_no_address(error: BaseException | None) -> bool:
    """Whether the name of the host is unknown, as without a network; waiting does not help then."""
    seen = 0
    while error is not None and seen < 10:
        if (isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME) or UNKNOWN in str(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def failures() -> tuple[type[Exception], ...]:
    """Everything that a request may raise: the HTTP library's base class differs between Hub versions."""
    from huggingface_hub.errors import HfHubHTTPError

    base = [k for k in HfHubHTTPError.__mro__ if issubclass(k, Exception) and k is not Exception]
    return (OSError, ValueError, *base)


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


@contextmanager
def asking(repo: str) -> Iterator[None]:
    """Turns every failure of a request into a ModelError, and silences the Hub library."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars, logging

    level, bars = logging.get_verbosity(), not are_progress_bars_disabled()
    expected: tuple[type[Exception], ...] = (*failures(), KeyError, TypeError)
    logging.set_verbosity(logging.CRITICAL)
    disable_progress_bars()
    try:
        yield
    except ModelError:
        raise
    except expected as error:
        raise explained(error, repo) from None
    finally:
        logging.set_verbosity(level)
        if bars:
            enable_progress_bars()


def explained(error: BaseException, repo: str) -> ModelError:
    """The failure as a ModelError with a next step."""
    from huggingface_hub import errors

    name = shown(repo)
    match error:
        case errors.GatedRepoError():
            return ModelError(
                f"'{name}' is gated: you need its owner's permission",
                cause=f"the Hub answered {_status(error)}",
                hint=f"accept the terms on the page of {name}, then run: hf auth login",
            )
        case errors.RevisionNotFoundError():
            return ModelError(f"'{name}' has no such revision", hint="leave out @REVISION to get the newest one")
        case errors.RepositoryNotFoundError():
            return ModelError(
                f"the Hub has no model '{name}', or it is private",
                cause=f"the Hub answered {_status(error)}",
                hint="check the spelling; for private models: hf auth login",
            )
        case errors.EntryNotFoundError() if _status(error) is not None:
            return ModelError(f"'{name}' has no complete speech model", cause="the Hub answered 404")
        case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled():
            return _unreachable(name, "no answer")
    if (status := _status(error)) is not None:
        return ModelError(
            f"the Hub refused to send '{name}'",
            cause=f"it answered {status}{_MEANING.get(status, '')}",
            hint="try again later; the download will continue"
            if status in _BUSY
            else "hf auth login   or   --mirror URL",
        )
    if isinstance(error, OSError) and (error.filename or error.errno == errno.ENOSPC):
        return ModelError(f"cannot store '{name}'", cause=shown(error, 300), hint="set HF_HOME to a writable folder")
    if isinstance(error, (ValueError, KeyError, TypeError)):
        return ModelError(
            f"the server that answered for '{name}' is not a Hub",
            cause=shown(error, 100),
            hint="check HF_ENDPOINT, and whether the network has a login page",
        )
    if type(error).__name__ == "UnsupportedProtocol":
        return ModelError(
            f"cannot download '{name}'",
            cause="the URL of the hub does not begin with http:// or https://",
            hint="correct HF_ENDPOINT or --mirror",
        )
    return _unreachable(name, shown(str(error).split("\n")[0], 100) or type(error).__name__)


_MEANING = {429: " (too many requests)", 403: " (forbidden)", 401: " (not logged in)", 503: " (overloaded)"}


def _unreachable(name: str, cause: str) -> ModelError:
    return ModelError(
        f"cannot download '{name}'",
        cause=f"network: {cause}",
        hint="check the network and proxies, then run the same command again; the download will continue",
    )
