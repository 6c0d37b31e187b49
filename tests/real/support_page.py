"""The documentation's page on runtimes, written from the table of the tests, with CRI-O and our engine beside it.

    python -m tests.real.support_page [--write]

Rules: pure text from `support_matrix`, `crio_matrix` and `engine_matrix`; a test holds the page to it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nri.conformance.fields import CASES
from tests.real import crio_matrix, engine_matrix
from tests.real.support_matrix import ADJUSTMENTS, APPLIED, EVENTS, FACTS, RUNTIMES, UPDATES, YES, Row

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/runtimes.md"

TEMPLATE = """\
# What each runtime supports

Measured on the real runtimes. The tests in `tests/real` hold every cell of containerd's columns, and those in
`tests/engine` of our engine's, the ones that say *ignored* and *no* included; CRI-O's were measured once, by hand.
`python -m tests.real.support_page --write` writes this page; do not edit it. To ask a runtime of your own:
[`nri conformance runtime`](../howto/examine.md).

| | runtime | from | NRI library |
|---|---|---|---|
| **1.7** | containerd 1.7.24 | Debian 13 (trixie) | 0.6.1 |
| **2.1** | containerd 2.1.9 | Debian unstable | 0.8.0 |
| **2.4** | containerd 2.4.2 | built from its Go module | 0.12.5 |
| **CRI-O** | CRI-O 1.37.0 | built from its source, with runc 1.1.5 on cgroup v1 | 0.12.0 |
| **nri** | [our own engine](../howto/engine.md) | this package, with runc 1.1.5 on cgroup v1 | this one |

*ignored* means that the runtime takes the field and does nothing, without an error: neither the plugin nor the
container's owner hears of it. A protobuf field that a runtime does not know is lost in the same way.
{notes}
## Events, in order

{events}
The plugin library asks each runtime only for events that it knows. `ValidateContainerAdjustment` needs an answer in
time, and a plugin's handlers run one at a time: one that is late in `create_container` is late here as well, and the
container is refused whatever its failure policy says.

## Configure, Synchronize and pre-installed plugins

{facts}
## Adjustments

Read back from inside the container, from its process, from its cgroup, or, where none of them shows it, from the OCI
spec.

{adjustments}
## Updates of running containers, unsolicited or returned by handlers

{updates}
Containerd keeps memory limit, CPU shares, quota, period and cpuset, huge pages and unified values of an update; the
rest is dropped.

{differences}
## Docker Engine and iSulad

Both have a part of NRI. Docker Engine was measured with dockerd of its development branch (August 2026, release 29),
iSulad with release 2.1.6; both were built from source and run with this package's plugins.

| | Docker Engine 29 | iSulad 2.1.6 |
|---|---|---|
| state | experimental, off by default | with CRI v1 only |
| turned on by | `"nri-opts": {{"enable": true}}` or the flag `--nri-opts` | `"nri-support"` and `"enable-cri-v1"` |
| socket | none, until `"socket-path"` is set | /var/run/nri/nri.sock |
| folder of plugins | /usr/libexec/docker/nri-plugins | /opt/nri/plugins; each plugin must have a configuration file |
| calls itself | `docker` | `v2`, version `2.0.0-beta.2+unknown` |
| events | Synchronize, CreateContainer | all of NRI 0.6.1 |
| environment | additions and changes | the creation fails |
| mounts | additions, with the option `ro` | additions |
| annotations, devices, memory limit | the creation fails | applied |
| CPU settings | the creation fails | applied together with CPUs and memory nodes |
| resource limits (rlimits) | the creation fails | if soft and hard limit are equal |
| hooks | the creation fails | dropped, with the rest of the answer |
| updates of containers | the creation or Synchronize fails | the daemon ends |
| evictions | the creation fails | ignored |
| an error of a plugin | the creation fails | the plugin is disconnected, the creation continues |

A plugin of this package sends each of them only what it applies. Other fields are left out, with one warning that names
plugin and field; with `--unsupported refuse` (or `NRI_UNSUPPORTED=refuse`) the handler fails instead. For iSulad it
adds CPUs and memory nodes to CPU settings: those of the container, or else all that are online. It reads the names of
pods and containers from the annotations of the CRI, and takes a container with a pid for running.

`nri doctor` reads both configurations. `nri config-manager --runtime dockerd` turns NRI on in daemon.json and sets a
socket, /var/run/docker/nri.sock, which plugins get with `--socket-path`; `systemctl reload docker` is enough. dockerd
does not start with `nri-opts` in the file and `--nri-opts` on its command line. iSulad ends at every
UpdateContainerResources of the kubelet while NRI is on, whatever the plugins do.
"""


def page() -> str:
    """The text of docs/reference/runtimes.md."""
    return TEMPLATE.format(
        notes=engine_matrix.NOTES,
        events=_table("event", [(row, crio_matrix.EVENTS.get(row.name, YES), engine_matrix.EVENTS) for row in EVENTS]),
        facts=_table(
            "",
            [
                (row, crio_matrix.FACTS.get(key, "not measured"), engine_matrix.FACTS[key][0])
                for key, row in FACTS.items()
            ],
        ),
        adjustments=_table(
            "adjustment",
            [
                (row, *(entry.ADJUSTMENTS.get(key, APPLIED) for entry in (crio_matrix, engine_matrix)))
                for key, row in ADJUSTMENTS.items()
            ],
            [case.where for case in CASES.values()],
        ),
        updates=_table(
            "update", [(row, crio_matrix.UPDATES[key], engine_matrix.UPDATES[key]) for key, row in UPDATES.items()]
        ),
        differences=crio_matrix.DIFFERENCES,
    )


def _table(first: str, rows: list[tuple[Row, str, str]], where: list[str] | None = None) -> str:
    """Rows with the cells of CRI-O and our engine as Markdown, and a column for where it is read back if given."""
    head = [first, *RUNTIMES, "CRI-O", "nri", *(["read back from"] if where else []), "note"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for number, (row, *other_rows) in enumerate(rows):
        cells = [cell.partition(":")[0] for cell in (*row.cells, *other_rows)]
        lines.append(f"| {' | '.join([row.name, *cells, *([where[number]] if where else []), row.note])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} instead of printing it")
    if parser.parse_args().write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
