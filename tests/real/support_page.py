"""The documentation's page on runtimes, written from the table of the tests, with columns of CRI-O and our engine.

    python -m tests.real.support_page [--write]

Rules: pure text from `support_matrix`, `crio_matrix` and `engine_matrix`; a test holds the page to it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.real import crio_matrix, engine_matrix
from tests.real.support_matrix import ADJUSTMENTS, APPLIED, EVENTS, FACTS, RUNTIMES, UPDATES, YES, Row

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/runtimes.md"

TEMPLATE = """\
# What each runtime supports

Measured on the real runtimes: containerd and our engine by the tests, CRI-O once, by hand. [`nri conformance
runtime`](../howto/examine.md) measures your runtime. (`python -m tests.real.support_page --write` writes this page.)

| | runtime | from | NRI library |
|---|---|---|---|
| **1.7** | containerd 1.7.24 | Debian 13 (trixie) | 0.6.1 |
| **2.1** | containerd 2.1.9 | Debian unstable | 0.8.0 |
| **2.4** | containerd 2.4.2 | built from its Go module | 0.12.5 |
| **CRI-O** | CRI-O 1.37.0 | built from its source, with runc 1.1.5 on cgroup v1 | 0.12.0 |
| **nri** | [our own engine](../howto/engine.md) | this package, with runc 1.1.5 on cgroup v1 | this one |

*ignored* means that the runtime accepts the field and does nothing, without an error, as for an unknown protobuf field.
{notes}
## Events, in order

{events}
The plugin library subscribes only to events that the runtime knows. If a validator is late in `create_container`, it is
also late in `ValidateContainerAdjustment`, and the container is refused whatever its failure policy is.

## Configure, Synchronize and pre-installed plugins

{facts}
## Adjustments

Read back from inside the container, from its process or its cgroup, or else from the OCI spec.

{adjustments}
## Updates of running containers, unsolicited or returned by handlers

{updates}
Of an update, containerd applies memory limit, CPU shares, quota, period and cpuset, huge pages and unified values.

{differences}
## Docker Engine and iSulad

Both support a part of NRI. Measured with dockerd of its development branch (August 2026, release 29), and iSulad 2.1.6.

| | Docker Engine 29 | iSulad 2.1.6 |
|---|---|---|
| state | experimental, off by default | with CRI v1 only |
| enabled by | `"nri-opts": {{"enable": true}}` or the flag `--nri-opts` | `"nri-support"` and `"enable-cri-v1"` |
| socket | none, until `"socket-path"` is set | /var/run/nri/nri.sock |
| folder of plugins | /usr/libexec/docker/nri-plugins | /opt/nri/plugins; each plugin must have a configuration file |
| name | `docker` | `v2`, version `2.0.0-beta.2+unknown` |

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

A plugin of this package omits fields that they do not apply, with one warning; with `--unsupported refuse` (or
`NRI_UNSUPPORTED=refuse`) the handler fails instead. For iSulad it adds CPUs and memory nodes to CPU settings, reads
the names of pods and containers from the annotations of the CRI, and treats a container with a pid as running.

`nri doctor` reads both configurations, and checks the keys as dockerd 29 does. `nri config-manager --runtime dockerd`
enables NRI in daemon.json with the socket /var/run/docker/nri.sock for `--socket-path`; then `systemctl reload docker`.
dockerd does not start if a key, for example `hosts` or `nri-opts`, is also a flag in docker.service. For iSulad,
`nri config-manager` enables NRI and CRI v1. iSulad does not start with a `#` comment in daemon.json, and while NRI is
enabled it ends at every UpdateContainerResources of the kubelet.
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
        ),
        updates=_table(
            "update", [(row, crio_matrix.UPDATES[key], engine_matrix.UPDATES[key]) for key, row in UPDATES.items()]
        ),
        differences=crio_matrix.DIFFERENCES,
    )


def _table(first: str, rows: list[tuple[Row, str, str]]) -> str:
    """Rows with the cells of CRI-O and our engine as Markdown, below a list of those that are alike everywhere."""
    head = [first, *RUNTIMES, "CRI-O", "nri", "note"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    alike = []
    for row, *other_rows in rows:
        cells = [cell.partition(":")[0] for cell in (*row.cells, *other_rows)]
        if set(cells) in ({YES}, {APPLIED}) and not row.note:
            alike.append(row.name)
        else:
            lines.append(f"| {' | '.join([row.name, *cells, row.note])} |")
    everywhere = f"All runtimes: {'; '.join(alike)}.\n\n" if alike else ""
    return everywhere + "\n".join(lines) + "\n"


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
