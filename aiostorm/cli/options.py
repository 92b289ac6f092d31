"""Options of several commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from .errors import CommandError

if TYPE_CHECKING:
    from ..cluster import Home, Restore
    from ..topology import Config
    from ..transport import Security

TARGET_HELP: Final = """TARGET is a topology, or a function that makes one; ARGS are the arguments of that function:

    \b
      pkg.mod:topology              an attribute of a module (default: topology)
      pkg.mod:make                  a function; ARGS are its arguments
      'pkg.mod:make("a", n=3)'      a function and its arguments, as Python literals
      path/file.py:topology         the same, in a file
"""

MAX_COUNT: Final = 1_000_000

debug_option = click.option("--debug", is_flag=True, help="Show tracebacks of errors in the target or configuration.")

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines for people, or one JSON object a line (and no progress).",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def _counts(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        name, equals, count = value.rpartition("=")
        if not equals or not name or not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= MAX_COUNT:
            raise click.BadParameter(f"{value!r} is not COMPONENT=TASKS, as in split=4", context, parameter)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", context, parameter)
        found[name] = int(count)
    return found


parallelism_option = click.option(
    "-e",
    "--parallelism",
    "parallelism",
    metavar="COMPONENT=TASKS",
    multiple=True,
    callback=_counts,
    help="Number of tasks of a component, as in split=4. Repeatable. Default: as its code says.",
)


def _pins(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for value in values:
        name, equals, label = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not COMPONENT=LABEL, as in detect=gpu", context, parameter)
        found[name] = found.get(name, frozenset()) | ({label} if label else frozenset())
    return found


pin_option = click.option(
    "--pin",
    "pins",
    metavar="COMPONENT=LABEL",
    multiple=True,
    callback=_pins,
    help="Run the tasks of a component only on nodes with this label, as in detect=gpu. Repeatable; of several "
    "labels for one component a node must have all. COMPONENT= ends its pin.",
)

kept_option = click.option("--kept", "kept", multiple=True, callback=_counts, hidden=True)


def config_options(command: Any) -> Any:
    """The options for settings."""
    for option in (
        click.option("--config", "file", type=click.Path(path_type=Path), help="YAML file with settings."),
        click.option(
            "-c",
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Set one setting, by Storm's key or by name; overrides the file and the environment. Repeatable.",
        ),
    ):
        command = option(command)
    return command


_GUARANTEE: Final = click.option(
    "--guarantee",
    type=click.Choice(["at-least-once", "exactly-once", "at-most-once"]),
    help="What a row does to the results, with failures or without. Default: at-least-once.",
)
_STATE: Final = click.option(
    "--state", metavar="DIR", help="Folder or URL for snapshots. Needs --guarantee exactly-once."
)


def guarantee_options(command: Any) -> Any:
    """The options for the guarantee of a topology; `take_guarantee_settings` reads them."""
    return _GUARANTEE(_STATE(command))


def take_guarantee_settings(options: dict[str, Any]) -> tuple[str, ...]:
    """Remove the options of `guarantee_options` from all options: what they set, as KEY=VALUE."""
    state = options.pop("state")
    if state is not None and "://" not in state:
        state = str(Path(state).expanduser().absolute())  # the topology runs in another folder
    given = {"topology.guarantee": options.pop("guarantee"), "topology.state.dir": state}
    return tuple(f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None)


def snapshot_options(command: Any) -> Any:
    """The options for the guarantee of a run; `take_snapshot_options` reads them."""
    options = (
        _GUARANTEE,
        _STATE,
        click.option(
            "--restore",
            callback=_restore,
            default="latest",
            show_default=True,
            help="Snapshot to continue from: latest, its number, or none to begin from the start.",
        ),
        click.option(
            "--repeat-output",
            is_flag=True,
            help="Allow --restore of an older snapshot although sinks write rows again that were committed after it.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class SnapshotOptions(NamedTuple):
    """What the options of `snapshot_options` say. `settings`: as KEY=VALUE. `restore`: see LocalCluster.submit."""

    settings: tuple[str, ...]
    restore: Restore
    given: str
    """The options that need exactly-once."""
    repeat_output: bool = False

    @property
    def beginning(self) -> tuple[Restore, bool]:
        """`restore` and `repeat_output`, as a Job takes them."""
        return self.restore, self.repeat_output

    def check(self, config: Config) -> None:
        """CommandError if snapshots are not taken."""
        if self.given and config.guarantee != "exactly-once":
            raise CommandError(
                f"{self.given}: the guarantee is {config.guarantee}, and only exactly-once has snapshots: add "
                f"--guarantee exactly-once, or remove {self.given}"
            )


def take_snapshot_options(options: dict[str, Any]) -> SnapshotOptions:
    """Remove the options of `snapshot_options` from all options."""
    guarantee, state, restore = options.pop("guarantee"), options.pop("state"), options.pop("restore")
    given = {"topology.guarantee": guarantee, "topology.state.dir": state}
    settings = tuple(f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None)
    need = "--state" if state is not None else "" if restore == "latest" else "--restore"
    return SnapshotOptions(settings, restore, need, options.pop("repeat_output", False))


def _restore(context: click.Context, parameter: click.Parameter, value: str) -> Restore:
    if value == "latest":
        return "latest"
    if value == "none":
        return None
    if not (value.isascii() and value.isdecimal() and int(value) >= 1):
        raise click.BadParameter(f"{value!r} is not latest, a number from 1, or none", context, parameter)
    return int(value)


def security_options(command: Any) -> Any:
    """The options of commands that connect to other machines."""
    path = click.Path(path_type=str, exists=True, dir_okay=False)
    options = (
        click.option(
            "--credentials",
            "directory",
            type=click.Path(path_type=str, exists=True, file_okay=False),
            metavar="DIR",
            help="Folder that `aiostorm certs node` has made for this node; replaces the next four options.",
        ),
        click.option("--token-file", type=path, help="The cluster's token (0600). Default: AIOSTORM_CREDENTIALS."),
        click.option("--tls-cert", type=path, help="This node's certificate. See `aiostorm certs`."),
        click.option("--tls-key", type=path, help="This node's private key (0600)."),
        click.option("--tls-ca", type=path, help="The certificate of the cluster's CA."),
        click.option(
            "--insecure", is_flag=True, help="Allow other machines without TLS and token, in a private network only."
        ),
    )
    for option in reversed(options):  # decorators are applied from the bottom: --help shows the order above
        command = option(command)
    return command


def node_options(command: Any) -> Any:
    """The options of a node that others reach, and of its processes; `take_node_options` reads them."""
    options = (
        click.option(
            "--host",
            metavar="ADDRESS",
            help="Name or IP address at which other nodes reach this one: the processes of topologies listen there, at "
            "ports that the system chooses. Default: none, for a cluster of one machine.",
        ),
        click.option(
            "--credentials",
            "directory",
            type=click.Path(path_type=str, file_okay=False, resolve_path=True),
            metavar="DIR",
            help="Folder that `aiostorm certs` has made for this node. Needed at an address that other machines reach.",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=str, dir_okay=False, resolve_path=True),
            help="The cluster's token (0600), without TLS. Default: the file credentials in the folder of --home.",
        ),
        click.option(
            "--insecure", is_flag=True, help="Allow other machines without TLS, in a network that is protected."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class NodeOptions(NamedTuple):
    """What the options of `node_options` say. `words`: those for the node's processes, except --host."""

    host: str
    words: tuple[str, ...]
    directory: str | None
    token_file: str | None
    insecure: bool

    def security(self, home: Home) -> Security:
        """Credentials and TLS; those of the home folder if none are given. CredentialsError."""
        from ..transport import Credentials, Security

        if self.directory is not None:
            return replace(Security.from_directory(self.directory), insecure=self.insecure)
        return Security(Credentials.from_file(self.token_file or home.credentials), None, self.insecure)


def take_node_options(options: dict[str, Any]) -> NodeOptions:
    """Remove the options of `node_options` from all options. CommandError if they contradict each other."""
    host, directory = options.pop("host") or "", options.pop("directory")
    token_file, insecure = options.pop("token_file"), options.pop("insecure")
    if directory is not None and token_file is not None:
        raise CommandError("--credentials replaces --token-file: use one of them")
    words = (
        *(("--credentials", directory) if directory is not None else ()),
        *(("--token-file", token_file) if token_file is not None else ()),
        *(("--insecure",) if insecure else ()),
    )
    return NodeOptions(host, words, directory, token_file, insecure)


def cluster_options(command: Any) -> Any:
    """The options that say which cluster is meant; `take_cluster_options` reads them."""
    options = (
        click.option(
            "--home",
            envvar="AIOSTORM_HOME",
            metavar="DIR",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder of the cluster's files on this machine. Default: AIOSTORM_HOME, else ~/.local/state/aiostorm.",
        ),
        click.option(
            "--store",
            envvar="AIOSTORM_STORE",
            metavar="URL",
            help="Coordination store: sqlite:PATH for the processes of one machine, zk://HOST,HOST/PATH for several. "
            "Default: AIOSTORM_STORE, else cluster.db in the folder.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def client_options(command: Any) -> Any:
    """The options of `cluster_options`, and those of a nimbus that is asked; `take_cluster_options` reads them."""
    options = (
        click.option(
            "--nimbus",
            envvar="AIOSTORM_NIMBUS",
            metavar="URL",
            help="Ask a nimbus, as aiostorm://HOST:PORT (several: with commas), and not the store. Needs a token. "
            "Default: AIOSTORM_NIMBUS.",
        ),
        click.option(
            "--token-file",
            envvar="AIOSTORM_TOKEN_FILE",
            metavar="FILE",
            help="Your token (0600), of `aiostorm token add`, for --nimbus. Default: AIOSTORM_TOKEN_FILE.",
        ),
        click.option(
            "--ca",
            envvar="AIOSTORM_CA",
            metavar="FILE",
            help="The certificate of the cluster's CA (ca.pem), for a nimbus on another machine. Default: AIOSTORM_CA.",
        ),
        click.option(
            "--certificate",
            envvar="AIOSTORM_CERTIFICATE",
            metavar="DIR",
            help="Your folder of `aiostorm certs client`, instead of --token-file and --ca. Default: "
            "AIOSTORM_CERTIFICATE.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return cluster_options(command)


class ClusterOptions(NamedTuple):
    """What the options of `cluster_options` say. `store`: the URL of the coordination store, or of a nimbus.

    `token_file`, `ca`, `certificate`: for a nimbus.
    """

    home: Home
    store: str
    token_file: str | None = None
    ca: str | None = None
    certificate: str | None = None

    @property
    def asks_nimbus(self) -> bool:
        """Is a nimbus asked, and not the store?"""
        return self.store.startswith("aiostorm://")


def take_cluster_options(options: dict[str, Any]) -> ClusterOptions:
    """Remove the options of `cluster_options` from all options. The folder is not made."""
    from ..cluster import Home

    given, store = options.pop("home"), options.pop("store")
    home = Home.default() if given is None else Home(given.absolute())
    if "nimbus" not in options:  # a --token-file is then another one
        return ClusterOptions(home, store or home.store_url)
    nimbus = options.pop("nimbus")
    token_file, ca, certificate = _take_proofs(options)
    if nimbus:
        if not nimbus.startswith("aiostorm://"):
            raise CommandError(f"--nimbus is aiostorm://HOST:PORT, or aiostorm://unix:PATH, not {nimbus!r:.100}")
        return ClusterOptions(home, nimbus, token_file, ca, certificate)
    return ClusterOptions(home, store or home.store_url)


def _take_proofs(options: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Token, CA and certificate: an option of the command line replaces the environment's for the other way."""
    token_file, ca, certificate = (options.pop(name) for name in ("token_file", "ca", "certificate"))
    typed = {name for name in ("token_file", "ca", "certificate") if is_typed(name)}
    if "certificate" in typed:
        return token_file if "token_file" in typed else None, ca if "ca" in typed else None, certificate
    return token_file, ca, None if typed & {"token_file", "ca"} else certificate


def is_typed(name: str) -> bool:
    """Is this option on the command line, and not from the environment?"""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def log_level_option(command: Any) -> Any:
    """The option for the lowest level of log lines."""
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
        default="info",
        show_default=True,
        help="Lowest level of log lines to show on stderr.",
    )(command)
