"""Paths of containerd's configuration and program in distributions of Kubernetes, and the file that may be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri.config.runtimes.containerd.judgement import PATH

if TYPE_CHECKING:
    from nri.config.runtimes.file_tree import FileTree


class Installation(NamedTuple):
    """A distribution's installation of containerd.

    Attributes:
        name: its usual name.
        path: the file that containerd reads.
        programs: the possible paths of its program.
        units: systemd units that run it; the first active unit is used.
        templates: the templates of `path`, by the configuration's version. `path` is generated at each start, so that a
            change in `path` would be lost.
        drop_in: a file that `path` imports, and that may be changed instead.
    """

    name: str
    path: str
    programs: tuple[str, ...]
    units: tuple[str, ...]
    templates: dict[int, str] = {}  # noqa: RUF012 - never changed
    drop_in: str = ""


def _rancher(name: str, units: tuple[str, ...], *programs: str) -> Installation:
    folder = f"/var/lib/rancher/{name}/agent/etc/containerd"
    templates = {2: f"{folder}/config.toml.tmpl", 3: f"{folder}/config-v3.toml.tmpl"}
    return Installation(name, f"{folder}/config.toml", programs, units, templates)


#: The usual installation comes first. nerdctl's packages use it, too.
INSTALLATIONS: tuple[Installation, ...] = (
    Installation(
        "containerd",
        PATH,
        ("/usr/bin/containerd", "/usr/local/bin/containerd", "/usr/sbin/containerd"),
        ("containerd.service",),
    ),
    _rancher("k3s", ("k3s.service", "k3s-agent.service"), "/var/lib/rancher/k3s/data/current/bin/containerd"),
    _rancher("rke2", ("rke2-server.service", "rke2-agent.service"), "/var/lib/rancher/rke2/bin/containerd"),
    Installation(
        "k0s",
        "/etc/k0s/containerd.toml",
        ("/var/lib/k0s/bin/containerd",),
        ("k0scontroller.service", "k0sworker.service"),
        drop_in="/etc/k0s/containerd.d/nri.toml",
    ),
    Installation(
        "microk8s",
        "/var/snap/microk8s/current/args/containerd.toml",
        ("/snap/microk8s/current/bin/containerd",),
        ("snap.microk8s.daemon-containerd.service",),
        templates={0: "/var/snap/microk8s/current/args/containerd-template.toml"},
    ),
    Installation(
        "rootless containerd",
        "/root/.config/containerd/config.toml",
        (),
        (),
    ),
)


def existing_installations(tree: FileTree) -> list[Installation]:
    """List the installations whose file exists."""
    return [row for row in INSTALLATIONS if tree.exists(row.path)]


def installation_at(path: str) -> Installation | None:
    """Find the installation whose file, template or drop-in has this path. Returns None for another file."""
    return next(
        (row for row in INSTALLATIONS if path in (row.path, row.drop_in, *row.templates.values())),
        None,
    )
