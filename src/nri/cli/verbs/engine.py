"""`nri engine`: the container engine with NRI in it, in the foreground; its settings; what it needs on this machine.

Next: `nri.engine.program` runs it, `nri.engine.check` looks at the machine, `nri.engine.config` reads the settings.
"""

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


#: The files of a dry engine, below its folder, by the keys that say where they are.
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


#: The name that the engine gives itself over the CRI.
ENGINE_NAME = "nri-engine"
#: For how many seconds an archive may be read and unpacked.
_LOAD_S = 900.0


def _loader() -> SettingsLoader[EngineConfig]:
    from nri.engine.config import ENGINE_SETTINGS

    return ENGINE_SETTINGS


def _dry(folder: str) -> Mapping[str, Any]:
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ConfigError("--dry", "", f"{folder} is not a folder")
    return {"dry": True, **{key: f"{os.path.abspath(folder)}/{name}" for key, name in _DRY.items()}}


ENGINE_OPTIONS = SettingsOptions(
    _loader,
    "/etc/nri/engine.toml",
    "nri.socket_path",
    "nri.plugin_request_timeout=5s",
    (
        Flag("--dry", _dry, "DIR", "Run nothing: no root, no OCI runtime; all its files and sockets are in DIR."),
        Flag("--socket", "socket", "PATH", "The socket on which the engine serves the CRI."),
        Flag("--metrics", "http.address", "HOST:PORT", "Serve /metrics, /healthz and /readyz on this address."),
    ),
)


@click.group(
    cls=VerbGroup,
    examples=["nri engine check", "sudo nri engine serve", "nri engine config show --effective"],
)
def engine() -> None:
    """Run a CRI container engine with NRI in it, over runc or crun; a kubelet can drive it.

    Its settings are listed by nri engine config keys.
    """


@engine.command(
    cls=Verb,
    short_help="run the engine in the foreground, until it is stopped",
    examples=[
        "sudo nri engine serve                   # with /etc/nri/engine.toml, if it is there",
        "sudo nri engine serve --config engine.toml --socket /run/my.sock -v",
        "kubelet --container-runtime-endpoint=unix:///run/nri-engine/engine.sock ...",
        "sudo nri engine serve --record /var/lib/nri/traces    # nri trace show /var/lib/nri/traces",
    ],
)
@ENGINE_OPTIONS
@record_options
@click.pass_obj
def serve(settings: Settings, /, **options: Any) -> int:
    """Run the engine in the foreground until SIGTERM or Ctrl-C. Containers run on; the next start takes them over.

    Its log goes to standard error: -v logs more, --log-format json writes objects. One line says when it is ready,
    and systemd is notified if it started the engine. Plugins connect at --socket-path.

    The exit code is 0 after SIGTERM, 130 after Ctrl-C, 1 if it cannot start, 2 for mistakes in its settings.
    """
    from nri.cli.support.logs import log_to
    from nri.service.daemon import needs_extra

    loaded = ENGINE_OPTIONS.load(settings, options)
    nri = loaded.settings.nri
    log_to(settings, loaded.settings.log_level)
    try:
        from nri.engine.program import serve as run
    except ModuleNotFoundError as error:
        needs_extra("the engine", error, "engine")
    with recorded(options, "nri engine serve", policy_path=nri.policy_path, compat=nri.compat) as reporters:
        return run(loaded, reporters)


@engine.command(
    cls=Verb,
    short_help="check what the engine needs on this machine, and how to get it",
    examples=[
        "sudo nri engine check",
        "sudo nri engine check -q                # only what is missing",
        "sudo nri engine check -o json | jq '.[] | select(.state == \"missing\")'",
    ],
)
@ENGINE_OPTIONS
@click.pass_obj
def check(settings: Settings, /, **options: Any) -> int:
    """Check everything that the engine needs on this machine, and say how to get what is missing.

    Looks at OCI runtimes, conmon, skopeo, umoci, pod networks, overlayfs, cgroups, namespaces, capabilities and
    sockets, as the engine's settings name them. Changes nothing. The exit code is 1 if something is missing.
    """
    loaded = ENGINE_OPTIONS.load(settings, options)
    from nri.engine.check import examine

    rows = examine(loaded.settings)
    gone = [row for row in rows if row.state == "missing"]
    out = Output(settings)
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not out.human:
        out.document([row._asdict() for row in rows])
    elif out.quiet:
        out.names(f"{row.what}: {row.found}; {row.next}" for row in gone)
    else:
        columns = [Column("WHAT", "what"), Column("STATE", "state"), Column("FOUND", "found")]
        out.table(columns, [row._asdict() for row in rows])
        _next_steps(out, rows)
        out.text(f"{count(len(gone), 'thing')} missing" if gone else "nothing is missing")
    return int(bool(gone))


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
    """Load an image into the engine that runs, under a name: from an archive of docker or podman save, or of OCI.

    ARCHIVE is a file, or a folder with an OCI layout; which kind of archive it is, the file says. Of one with several
    images, docker-archive:FILE:NAME, oci-archive:FILE:NAME or oci:DIR:NAME takes one. IMAGE is the name by which pods
    ask for it. The engine reads the file, so its path is one of the engine's machine.
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
            raise Failure(f"{runtime} takes no archives over the CRI. try: {steps}")
        request = pb.PullImageRequest(image=pb.ImageSpec(image=image))
        try:
            made = cri.call("PullImage", request, _LOAD_S, [(ARCHIVE_KEY, os.fsencode(source))]).image_ref
        except RpcError as error:
            if "choose an image" not in str(error):
                raise
            raise Failure(f"{archive} has several images. try: nri engine load {source}:NAME {image}") from None
    if not out.human:
        out.document({"image": image, "id": made})
    elif out.quiet:
        out.names([made])
    else:
        out.text(f"{image}: {made}")


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

    systemd is notified when it is ready, and containers run on when it restarts.
    """
    from nri.engine.unit import unit_text

    out, text = Output(settings), unit_text()
    if out.human:
        out.lines(text.rstrip("\n"))
    else:
        out.document({"unit": text})


@engine.group(
    cls=VerbGroup,
    short_help="show the engine's settings, and explain its configuration file",
    examples=[
        "nri engine config show --effective",
        "nri engine config keys",
        "nri engine config show --config /etc/containerd/config.toml",
    ],
)
def config() -> None:
    """Show the engine's settings, and explain its configuration file.

    Later sources override earlier ones: defaults; the files, /etc/nri/engine.toml unless others are named; the
    environment (NRI_ENGINE_CONFIG, NRI_ENGINE_SOCKET, NRI_ENGINE_LOG_LEVEL, NRI_SOCKET); flags. The file is TOML,
    and unknown keys are errors. A file may also be containerd's config.toml or iSulad's daemon.json, of which only
    the settings of NRI are used.
    """


@config.command(
    cls=Verb,
    short_help="show the settings in force, and where each was set",
    examples=[
        "nri engine config show                         # what files, environment and flags say",
        "nri engine config show --effective             # every setting, and where it came from",
        "nri engine config show --effective -o json | jq '.[] | select(.from != \"default\")'",
        "nri engine config show --config /etc/isulad/daemon.json",
    ],
)
@click.option("--effective", is_flag=True, help="Also settings that have their default.")
@ENGINE_OPTIONS
@click.pass_obj
def show(settings: Settings, /, effective: bool, **options: Any) -> None:
    """Show the settings that the engine would start with, and where each was set.

    The exit code is 2 if it would not start with them; then every mistake is printed with its line.
    """
    loaded = ENGINE_OPTIONS.load(settings, options)
    from nri.config.listing import DEFAULT, rows

    out = Output(settings)
    found = [
        {"key": row.key, "value": _written(row.value) if out.human else row.value, "from": row.origin}
        for row in rows(loaded.settings, loaded.origins)
        if effective or row.origin != DEFAULT
    ]
    for note in loaded.notes:
        out.note(f"note: {note}")
    if not found and out.human:
        out.note("nothing is set: the engine has its defaults; --effective shows them")
        return
    out.table([Column("KEY", "key"), Column("VALUE", "value"), Column("FROM", "from")], found)


@config.command(
    cls=Verb,
    short_help="list every key with its default and meaning",
    examples=["nri engine config keys", "nri engine config keys nri.", "nri engine config keys -o json"],
)
@click.argument("prefix", default="")
@click.pass_obj
def keys(settings: Settings, prefix: str) -> None:
    """List every key of engine.toml, with its default and meaning; with PREFIX those that begin with it.

    A key is written as in TOML: nri.socket_path is socket_path in the table [nri].
    """
    ENGINE_OPTIONS.list_keys(settings, prefix, "nri engine config keys")


def _written(value: Any) -> Any:
    """A value for a table, with true and false as the file has them."""
    return str(value).lower() if isinstance(value, bool) else value


def _next_steps(out: Output, rows: Any) -> None:
    """Print what to do, the worst first."""
    steps = [row for state in ("missing", "limited") for row in rows if row.state == state and row.next]
    if steps:
        out.text("")
        out.text("Next steps:")
    for row in steps:
        out.text(f"  {row.what} ({row.state}): {row.next}")
    out.text("")


command = engine
