"""`nri doctor`: everything that keeps plugins from working, found in one go, each with the next step.

What is looked at, and how it is judged, is in `nri.cli.checks`; this file decides the order and prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.verb import Settings, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.cli.checks.findings import Finding, RuntimeNri
    from nri.cli.output import Output

_STYLE = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}

EXAMPLES = [
    "nri doctor",
    "nri doctor --socket-path /run/k3s/nri.sock",
    "nri doctor --root /host                 # from a container that has the host's root there",
    "nri doctor -o json                      # for programs; exits 1 if there is a problem",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option(
    "--root",
    default="/",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Look below this folder instead of /.",
)
@click.pass_obj
def command(settings: Settings, root: str) -> int:
    """Find out why NRI does not work here.

    Looks at the runtimes' configuration and contradictions in it, the socket and its permissions, the plugin folder,
    protobuf's back end, and versions. Changes nothing.

    Exits with 0 when nothing keeps plugins from working, with 1 when something does.
    """
    import os

    findings = examine(settings, os.path.abspath(root))
    out = settings.out
    if out.human:
        _print(out, findings)
    else:
        out.document([{"level": f.level, "what": f.what, "where": f.where, "next": f.next} for f in findings])
    return int(any(finding.level == "problem" for finding in findings))


def examine(settings: Settings, root: str) -> list[Finding]:
    """All findings, in the order in which one would look."""
    from nri.cli.checks import containerd, crio, isulad, plugins, python, runtimes, sockets

    findings: list[Finding] = []
    version = _containerd_version(root, findings)
    checked = [containerd.check(root, version, findings), crio.check(root, findings), isulad.check(root, findings)]
    found = [nri for nri in checked if nri is not None]
    runtimes.check(found, findings, socket_given=bool(settings.socket_path))
    for path in _sockets(settings, found, findings):
        sockets.check(root, path, findings)
    seen: set[tuple[str, str]] = set()
    for nri in found:
        if nri.enabled is not False and (nri.plugin_path, nri.plugin_config_path) not in seen:
            seen.add((nri.plugin_path, nri.plugin_config_path))
            plugins.check(root, nri, findings)
    python.check(findings)
    return findings


def _containerd_version(root: str, findings: list[Finding]) -> str:
    """The version of the containerd on this machine; "" when we look at a copy of another one, or there is none."""
    import shutil
    import subprocess

    from nri.cli.checks.containerd import parse_version
    from nri.cli.checks.findings import Finding

    program = shutil.which("containerd") if root == "/" else None
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = parse_version(done.stdout)
    if version and tuple(map(int, version.split(".")[:2])) < (1, 7):
        step = "install containerd 1.7 or newer"
        findings.append(Finding("problem", f"containerd {version} has no NRI", program, step))
    elif version:
        findings.append(Finding("ok", f"containerd {version}", program))
    return version


def _sockets(settings: Settings, found: Sequence[RuntimeNri], findings: list[Finding]) -> list[str]:
    """The sockets to look at, and which source told them: flag, environment, configuration, or the default."""
    from nri.cli.checks.findings import Finding

    configured = {nri.socket_path: nri.name for nri in found if nri.enabled is not False and nri.connections}
    if settings.socket_path:
        path, origin = settings.socket_path, settings.socket_from
        if configured and path not in configured:
            what = f"no runtime is configured to listen on {path}; configured: {', '.join(configured)}"
            findings.append(Finding("warning", what, origin, "is it the right socket?"))
        findings.append(Finding("note", f"plugins and nri use {path}", origin))
        return [path]
    return list(configured)


def _print(out: Output, findings: Sequence[Finding]) -> None:
    """Findings for a person: bad ones stand out, each with its next step below it."""
    for finding in findings:
        if out.quiet and finding.level != "problem":
            continue
        out.text(f"{out.paint(f'{finding.level:7}', _STYLE[finding.level])}  {finding.where}: {finding.what}")
        if finding.next:
            out.text(f"{'':7}  {out.paint('->', 'dim')} {finding.next}")
    problems = sum(finding.level == "problem" for finding in findings)
    if not out.quiet:
        words = f"{problems} problem{'s' if problems != 1 else ''}" if problems else "no problems"
        out.text(out.paint(words, "red" if problems else "green"))
