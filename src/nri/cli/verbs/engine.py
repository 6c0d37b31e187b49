"""`nri engine`: run the container engine, check its requirements, load images, and show its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import Failure
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.cri import connect, cri_option
from nri.cli.support.recording import record_options, recorded
from nri.cli.support.settings_options import Flag, SettingsOptions
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import ConfigError, RpcError
from nri.text import count

if TYPE_CHECKING:
    from nri.config.settings import SettingsLoader
    from nri.engine.config import EngineConfig


#: The paths that --dry DIR sets, relative to DIR, by the keys of engine.toml.
_DRY = {
    "root": "root",
    "state": "state",
    "socket": "cri.sock",
    "nri.socket_path": "nri.sock",
    "nri.admin_socket": "admin.sock",
    "nri.plugin_path": "plugins",
    "nri.plugin_config_path": "conf.d",
    "nri.policy_path": "policy.toml",
}


#: The runtime name that the engine reports over the CRI.
ENGINE_NAME = "nri-engine"
#: The time limit for reading and unpacking an archive.
_LOAD_TIMEOUT_S = 900.0


def _loader() -> SettingsLoader[EngineConfig]:
    from nri.engine.config import ENGINE_SETTINGS

    return ENGINE_SETTINGS


def _dry_settings(folder: str) -> Mapping[str, Any]:
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ConfigError("--dry", "", f"{folder} is not a folder")
    return {"dry": True, **{key: f"{os.path.abspath(folder)}/{name}" for key, name in _DRY.items()}}


ENGINE_OPTIONS = SettingsOptions(
    _loader,
    "/etc/nri/engine.toml",
    "nri.socket_path",
    "nri.plugin_request_timeout=5s",
    (
        Flag(
            "--dry",
            _dry_settings,
            "DIR",
            "Decide every step, but run no containers; requires no root. All files and sockets are in DIR.",
        ),
        Flag("--socket", "socket", "PATH", "The engine's CRI socket."),
        Flag("--metrics", "http.address", "HOST:PORT", "Serve /metrics, /healthz and /readyz on this address."),
    ),
)


@click.group(
    cls=VerbGroup,
    examples=["nri engine check", "sudo nri engine serve", "nri engine config show --effective"],
)
def engine() -> None:
    """Run a container engine with NRI. It serves the CRI to a kubelet, and runs containers with runc or crun.

    nri engine config keys lists the engine's settings.
    """


@engine.command(
    cls=Verb,
    reloads=True,
    short_help="run the engine in the foreground, until it is stopped",
    examples=[
        "sudo nri engine serve                   # with /etc/nri/engine.toml, if it exists",
        "sudo nri engine serve --config engine.toml --socket /run/my.sock -v",
        "kubelet --container-runtime-endpoint=unix:///run/nri-engine/engine.sock ...",
        "sudo nri engine serve --record /var/lib/nri/traces    # nri trace show /var/lib/nri/traces",
    ],
)
@ENGINE_OPTIONS
@record_options
@click.pass_obj
def serve(settings: Settings, /, **options: Any) -> int:
    """Run the engine in the foreground until SIGTERM or Ctrl-C. Containers keep running when the engine stops.

    The log goes to standard error. The engine logs when it is ready, and notifies systemd. Plugins connect to the
    socket of --socket-path. SIGHUP makes it read its settings again, as nri engine reload does. A
    SIGHUP that arrives during the start takes effect when the engine is ready.

    The exit code is 0 after SIGTERM, 130 after Ctrl-C, 1 if the engine cannot start, 2 if its settings have mistakes.
    """
    from nri.cli.support.logs import log_to
    from nri.service.daemon import raise_missing_extra

    loaded = ENGINE_OPTIONS.load(settings, options)
    nri = loaded.settings.nri
    log_to(settings, loaded.settings.log_level)
    try:
        from nri.engine.program import serve as run
    except ModuleNotFoundError as error:
        raise_missing_extra("the engine", error, "engine")
    with recorded(options, "nri engine serve", policy_path=nri.policy_path, compat=nri.compat) as reporters:
        return run(
            loaded,
            reporters,
            lambda: ENGINE_OPTIONS.load(settings, options),
            lambda config: log_to(settings, config.log_level),
        )


@engine.command(
    cls=Verb,
    short_help="check that this machine has what the engine requires",
    examples=[
        "sudo nri engine check",
        "sudo nri engine check -q                # print only missing requirements",
        "sudo nri engine check -o json | jq '.[] | select(.state == \"missing\")'",
    ],
)
@ENGINE_OPTIONS
@click.pass_obj
def check(settings: Settings, /, **options: Any) -> int:
    """Check that this machine has what the engine requires, and show how to install missing programs.

    Checks OCI runtimes, conmon, skopeo, umoci, pod networks, overlayfs, cgroups, namespaces, capabilities and sockets,
    with the paths in the engine's settings. Changes nothing. The exit code is 1 if a requirement is missing.
    """
    loaded = ENGINE_OPTIONS.load(settings, options)
    from nri.engine.check import examine

    rows = examine(loaded.settings)
    missing = [row for row in rows if row.state == "missing"]
    out = Output(settings)
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not out.human:
        out.document([row._asdict() for row in rows])
    elif out.quiet:
        out.names(f"{row.what}: {row.found}; {row.next}" for row in missing)
    else:
        columns = [Column("WHAT", "what"), Column("STATE", "state"), Column("FOUND", "found")]
        out.table(columns, [row._asdict() for row in rows])
        _next_steps(out, rows)
        out.text(f"{count(len(missing), 'requirement')} missing" if missing else "nothing is missing")
    return int(bool(missing))


@engine.command(
    cls=Verb,
    short_help="make the running engine read its settings again",
    examples=["sudo nri engine reload", "sudo nri engine reload -q && echo valid"],
)
@cri_option
@click.pass_obj
def reload(settings: Settings, cri_socket: str | None) -> None:
    """Make the running engine read its settings again, from the same files, environment and flags as at its start.

    Prints the keys that changed, and the changed keys that require a restart. If a file is invalid, nothing changes,
    the mistakes are printed, and the exit code is 1. Containers keep their settings; new containers get the new ones.
    """
    from nri.config.syntax import parse_json
    from nri.cri.client import RELOAD_KEY
    from nri.cri.pb import api_pb2 as pb

    out = Output(settings)
    with connect(settings, cri_socket) as cri:
        runtime = cri.call("Version", pb.VersionRequest()).runtime_name
        if runtime != ENGINE_NAME:
            raise Failure(f"{runtime} is not nri's engine. Restart it, or see its documentation")
        cri.call("UpdateRuntimeConfig", pb.UpdateRuntimeConfigRequest(), metadata=[(RELOAD_KEY, b"1")])
        text = cri.call("Status", pb.StatusRequest(verbose=True)).info.get("reload", "")
    if not text:
        raise Failure("the running engine is older than this command and cannot reload its settings: restart it")
    outcome = parse_json(text)
    if not out.human:
        out.document(outcome)
        return
    if not out.quiet:
        for key in outcome["adopted"]:
            out.text(f"changed: {key}")
        if not outcome["adopted"]:
            out.note("no setting changed; files that settings name were read again")
    for key in outcome["deferred"]:
        out.note(f"{key}: the new value requires a restart of the engine")


@engine.command(
    cls=Verb,
    short_help="load an image from an archive, without a registry",
    examples=[
        "sudo nri engine load busybox.tar busybox:1.36",
        "skopeo copy docker://busybox:1.36 docker-archive:busybox.tar   # on a machine with a registry",
        "sudo nri engine load oci:/srv/layout:app example.org/app:1",
    ],
)
@click.argument("archive")
@click.argument("image")
@cri_option
@click.pass_obj
def load(settings: Settings, archive: str, image: str, cri_socket: str | None) -> None:
    """Load an image from an archive into the running engine.

    ARCHIVE is a file written by docker save or podman save, an OCI archive, or a folder with an OCI layout. If it has
    several images, choose one: docker-archive:FILE:NAME, oci-archive:FILE:NAME or oci:DIR:NAME. IMAGE is the name that
    pods use for the image. The engine itself reads ARCHIVE, so it must be on the engine's machine.
    """
    from nri.cri.client import ARCHIVE_KEY
    from nri.cri.pb import api_pb2 as pb
    from nri.engine.images.archive import archive_source

    source, out = archive_source(archive), Output(settings)
    with connect(settings, cri_socket) as cri:
        runtime = cri.call("Version", pb.VersionRequest()).runtime_name
        if runtime != ENGINE_NAME:
            steps = f"ctr -n k8s.io images import {archive} (containerd), or skopeo copy {source} "
            steps += f"containers-storage:{image} (CRI-O)"
            raise Failure(f"{runtime} cannot load archives over the CRI. Use: {steps}")
        request = pb.PullImageRequest(image=pb.ImageSpec(image=image))
        try:
            image_id = cri.call("PullImage", request, _LOAD_TIMEOUT_S, [(ARCHIVE_KEY, os.fsencode(source))]).image_ref
        except RpcError as error:
            if "choose an image" not in str(error):
                raise
            raise Failure(f"{archive} has several images. try: nri engine load {source}:NAME {image}") from None
    if not out.human:
        out.document({"image": image, "id": image_id})
    elif out.quiet:
        out.names([image_id])
    else:
        out.text(f"{image}: {image_id}")


@engine.command(
    cls=Verb,
    short_help="print a systemd unit that runs the engine",
    examples=[
        "nri engine unit | sudo tee /etc/systemd/system/nri-engine.service",
        "sudo systemctl daemon-reload && sudo systemctl enable --now nri-engine",
    ],
)
@click.pass_obj
def unit(settings: Settings) -> None:
    """Print a systemd unit that runs the engine of this installation.

    The engine notifies systemd when it is ready. Containers keep running when it restarts.
    """
    from nri.engine.unit import unit_text

    out, text = Output(settings), unit_text()
    if out.human:
        out.lines(text.rstrip("\n"))
    else:
        out.document({"unit": text})


@engine.group(
    cls=VerbGroup,
    short_help="show the engine's settings and the keys of its configuration file",
    examples=[
        "nri engine config show --effective",
        "nri engine config keys",
        "nri engine config show --config /etc/containerd/config.toml",
    ],
)
def config() -> None:
    """Show the engine's settings and the keys of its configuration file.

    Later sources override earlier ones: defaults; configuration files (/etc/nri/engine.toml, or the files of --config);
    environment variables (NRI_ENGINE_CONFIG, NRI_ENGINE_SOCKET, NRI_ENGINE_LOG_LEVEL, NRI_SOCKET); flags. Configuration
    files are TOML, and unknown keys are errors. --config also accepts containerd's config.toml and iSulad's
    daemon.json; only the NRI settings of these files are used.
    """


@config.command(
    cls=Verb,
    short_help="show the engine's settings, and where each was set",
    examples=[
        "nri engine config show                         # settings of files, environment and flags",
        "nri engine config show --effective             # all settings, with their sources",
        "nri engine config show --effective -o json | jq '.[] | select(.from != \"default\")'",
        "nri engine config show --config /etc/isulad/daemon.json",
    ],
)
@click.option("--effective", is_flag=True, help="Also show settings that have their default.")
@ENGINE_OPTIONS
@click.pass_obj
def show(settings: Settings, /, effective: bool, **options: Any) -> None:
    """Show the settings with which the engine would start, and where each was set.

    Mistakes in the settings are printed with their lines, and the exit code is then 2.
    """
    loaded = ENGINE_OPTIONS.load(settings, options)
    from nri.config.listing import DEFAULT, rows

    out = Output(settings)
    setting_rows = [
        {"key": row.key, "value": _table_value(row.value) if out.human else row.value, "from": row.origin}
        for row in rows(loaded.settings, loaded.origins)
        if effective or row.origin != DEFAULT
    ]
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not setting_rows and out.human:
        out.note("nothing is set: the engine uses its defaults; --effective shows them")
        return
    out.table([Column("KEY", "key"), Column("VALUE", "value"), Column("FROM", "from")], setting_rows)


@config.command(
    cls=Verb,
    short_help="list the keys of engine.toml with type, default and meaning",
    examples=["nri engine config keys", "nri engine config keys nri.", "nri engine config keys -o json"],
)
@click.argument("prefix", default="")
@click.pass_obj
def keys(settings: Settings, prefix: str) -> None:
    """List the keys of engine.toml with type, default and meaning. With PREFIX, list only keys that begin with PREFIX.

    nri.socket_path is the key socket_path in the table [nri].
    """
    ENGINE_OPTIONS.list_keys(settings, prefix, "nri engine config keys")


def _table_value(value: Any) -> Any:
    """Return a value as a table shows it: true and false in lower case, as in TOML."""
    return str(value).lower() if isinstance(value, bool) else value


def _next_steps(out: Output, rows: Any) -> None:
    """Print the next steps, beginning with missing requirements."""
    steps = [row for state in ("missing", "limited") for row in rows if row.state == state and row.next]
    if steps:
        out.text("")
        out.text("Next steps:")
    for row in steps:
        out.text(f"  {row.what} ({row.state}): {row.next}")
    out.text("")


command = engine
