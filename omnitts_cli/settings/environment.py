"""The environment variables that are used, ours and others. The only file that reads them."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

PREFIX = "OMNITTS_"
EMBEDDED = "tiny"
"""The model inside the package, the default."""

API_KEY = "OMNITTS_API_KEY"
"""The key of a server, for `--via URL`, `bench --url` and `serve`."""

LLM_KEY = "OMNITTS_LLM_KEY"
"""The key of the server of `ask --llm URL`."""

TRUSTED_HUB = "OMNITTS_TRUSTED_HUB"
"""A host besides the Hub itself that gets the user's token for the Hub: that of a mirror with private models."""

# Other variables that we or our libraries use; `omnitts config show` lists them.
FOREIGN = (
    API_KEY, LLM_KEY, "HF_HOME", "HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE", "NO_COLOR", "FORCE_COLOR", "TMPDIR",
    "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)  # fmt: skip
SECRET = ("HF_TOKEN", API_KEY, LLM_KEY)
NATIVE = "OMNITTS_NATIVE"
"""0 disables the compiled CPU library, for comparisons."""
COMPLETING = "_OMNITTS_COMPLETE"
"""Set by the scripts of `omnitts completion` when a shell asks."""
SWITCHES = ("config", "native", "api_key", "llm_key", "trusted_hub")
"""Variables of ours that are not options: OMNITTS_CONFIG, OMNITTS_NATIVE, OMNITTS_API_KEY, OMNITTS_LLM_KEY,
OMNITTS_TRUSTED_HUB."""


def variable(name: str) -> str | None:
    """An environment variable; an empty one counts as unset."""
    return os.environ.get(name) or None


def own_version() -> str:
    """The version of this package; "0" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("omnitts-cli")
    except PackageNotFoundError:
        return "0"


def unix_sockets() -> bool:
    """Whether this system has Unix sockets, and users that they belong to; Windows has not."""
    import socket  # with the import below 4 % of the time of --help

    return hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")


def server_socket() -> Path:
    """Where `omnitts serve` listens for commands of the same user."""
    runtime = variable("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime, "omnitts", "serve.sock")
    if not unix_sockets():  # then only its folder is used, where programs of this user wait for each other
        import tempfile

        return Path(tempfile.gettempdir(), "omnitts", "serve.sock")
    return Path(variable("TMPDIR") or "/tmp", f"omnitts-{os.getuid()}", "serve.sock")


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and nobody else can put anything into it."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # on Windows, folders for temporary files belong to one user
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def quiet_ray() -> None:
    """Before Ray is imported: it reports no usage, and prints no advice. Variables set by the user are respected."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def use_token_of_ray() -> None:
    """Before Ray is imported, to join a cluster: uses this user's token, if there is one.

    `ray start` asks for it where a token exists, and `ray.init()` makes one for a local cluster. Ray itself does not
    use it to join a cluster.
    """
    path = Path(variable("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if variable("RAY_AUTH_TOKEN") or path.exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def fast_proxy() -> None:
    """Before Ray is imported: Ray Serve's proxy is HAProxy, not one in Python, which takes 8 ms of a first packet.

    A replica that is stopped waits for HAProxy to take it off its list: 2 s, not 30. Ray ends a proxy that is not ready
    after 5 s, and then the command fails; on a busy machine it takes longer.
    """
    os.environ.setdefault("RAY_SERVE_ENABLE_HA_PROXY", "1")
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    os.environ.setdefault("RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S", "2")


def before_torch() -> None:
    """Sets what torch reads when it is imported. Variables set by the user are respected.

    Torch does not import every installed accelerator package: a broken one would break all of them, and a device
    imports its own by name. OpenMP threads sleep at barriers. By default they spin, and on a busy machine they spin for
    threads that are not scheduled: measured, speech took 60 s instead of 1.2 s.
    """
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def ours() -> Mapping[str, str]:
    """The OMNITTS_ variables, by name without the prefix, in lower case."""
    found = {name: value for name, value in os.environ.items() if name.startswith(PREFIX) and value}
    return {name.removeprefix(PREFIX).lower(): value for name, value in found.items()}
