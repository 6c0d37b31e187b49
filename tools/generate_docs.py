"""Write the tables of the documentation that follow from the code: `python tools/generate_docs.py`, or `--check`.

The function NAME of `REGIONS` returns the text between `<!-- generated: NAME -->` and `<!-- end -->` of a page. The
tables are checked in, so that pages can be read in the tree, and compared in CI. Names, numbers and types come from
the descriptor and the tables of the package, descriptions from the comments of the .proto file. Nothing comes from the
running machine.

Exit codes: 0 written or equal, 1 different.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nri.agent.observer import METRICS
from nri.api import messages as m
from nri.api.events import EVENTS
from nri.host.cgroups.knobs import KNOBS, Place
from nri.proxy.adjust.table import TABLE
from nri.versions import RUNTIMES

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.real import bundled_matrix  # noqa: E402
from tools import agent_tables, go_names, settings_tables  # noqa: E402
from tools.deployment import table as deployment  # noqa: E402
from tools.deviation_tables import deviations  # noqa: E402

PROTO = ROOT / "proto/nri/pkg/api/v1alpha1/api.proto"
REGION = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FILE = m.PodSandbox.DESCRIPTOR.file
SCALARS = {1: "double", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32"}
#: What a runtime uses of the reply to an event.
REPLIES = {
    "CreateContainer": "`adjust`, `update`",
    "UpdateContainer": "`update`",
    "StopContainer": "`update`",
    "ValidateContainerAdjustment": "`reject`, `reason`",
}
#: Messages by what they are for; a message that is in no list is put into the last one.
GROUPS = {
    "Registration, configuration, synchronization": (
        "RegisterPluginRequest ConfigureRequest ConfigureResponse FailurePolicy SynchronizeRequest SynchronizeResponse "
        "UpdateContainersRequest UpdateContainersResponse Empty"
    ),
    "Events": " ".join(f"{spec.request} {spec.reply}" for spec in EVENTS)
    + " PluginInstance StateChangeEvent OwningPlugins FieldOwners CompoundFieldOwners",
    "Pods and containers": (
        "PodSandbox LinuxPodSandbox Container LinuxContainer Image User Mount Hooks Hook LinuxNamespace LinuxDevice "
        "LinuxDeviceCgroup CDIDevice SecurityProfile LinuxSeccomp LinuxSyscall LinuxSeccompArg LinuxIOPriority "
        "LinuxNetDevice LinuxScheduler LinuxRdt LinuxMemoryPolicy POSIXRlimit"
    ),
    "Resources": "LinuxResources LinuxMemory LinuxCPU HugepageLimit LinuxPids",
    "Adjustments, updates, evictions": (
        "ContainerAdjustment LinuxContainerAdjustment ContainerUpdate LinuxContainerUpdate ContainerEviction KeyValue"
    ),
    "Optional values": (
        "OptionalString OptionalRepeatedString OptionalInt OptionalInt32 OptionalUInt32 OptionalInt64 OptionalUInt64 "
        "OptionalBool OptionalFileMode"
    ),
    "Only between WebAssembly plugins and their host": "LogRequest",
}


def comments() -> dict[str, tuple[str, str]]:
    """`Message.field`, `Message`, `Service.Method`, `Enum.VALUE` -> (comment, release that added it) of the .proto."""
    texts: dict[str, tuple[str, str]] = {}
    scope: list[str] = []
    comment_lines: list[str] = []
    for line in PROTO.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        since = match[1] if (match := re.search(r"// since v([\d.]+)", text)) else ""
        if text.startswith("//"):
            comment_lines.append(text.removeprefix("//").strip())
            continue
        if match := re.match(r"(?:message|enum|service) (\w+) \{", text):
            scope.append(match[1])
            texts[".".join(scope)] = (" ".join(comment_lines), since)
        elif (match := re.match(r"rpc (\w+)", text)) or (match := re.match(r"(?:[\w<>., ]+ )?(\w+) = \d+", text)):
            texts[".".join([*scope, match[1]])] = (" ".join(comment_lines), since)
        comment_lines = []
        if text.endswith("}") and scope:
            scope.pop()
    return texts


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a `|` in a cell is escaped."""
    head = list(columns)
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in (head, *rows)]
    return "".join([lines[0], "|" + "---|" * len(head) + "\n", *lines[1:]])


def type_of(field: Any) -> str:
    """A field's type as the .proto writes it."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{type_of(key)}, {type_of(value)}>"
    named = field.message_type or field.enum_type
    name = SCALARS[field.type] if named is None else named.full_name.removeprefix(f"{FILE.package}.")
    # Its own default value tells a repeated field apart on every protobuf release that we support.
    return f"repeated {name}" if isinstance(field.default_value, list) else name


def messages() -> str:
    """Every message, in groups; small messages without explanations share a table."""
    texts = comments()
    remaining = dict(FILE.message_types_by_name)
    out = []
    for group, names in GROUPS.items():
        out.append(f"## {group}\n")
        alike: dict[str, list[str]] = {}
        for message in [remaining.pop(name) for name in names.split() if name in remaining]:
            explained = any(texts.get(f"{message.name}.{field.name}", ("", ""))[0] for field in message.fields)
            if explained or len(message.fields) > 2:
                out.append(message_section(message, texts))
            else:
                fields = ", ".join(declaration(field) for field in message.fields)
                alike.setdefault(fields or "none", []).append(f"`{message.name}`")
        if alike:
            out.append(f"### Other messages: {group}\n")
            out.append(table(("fields", "messages"), [(fields, ", ".join(names)) for fields, names in alike.items()]))
    if remaining:
        raise KeyError(f"put into a group of GROUPS: {', '.join(remaining)}")
    return "\n".join(out)


def declaration(field: Any, added: str = "") -> str:
    """A field as the .proto declares it, and the release that added it."""
    return f"`{type_of(field)} {field.name} = {field.number}`" + (f" ({added.removesuffix('.0')})" if added else "")


def message_section(message: Any, texts: dict[str, tuple[str, str]]) -> str:
    """One message: its comment and its fields; neighbours without an explanation share a row."""
    rows: list[tuple[str, str]] = []
    for field in sorted(message.fields, key=lambda field: int(field.number)):
        text, added = texts.get(f"{message.name}.{field.name}", ("", ""))
        cell = declaration(field, added)
        if rows and not text and not rows[-1][1]:
            cell = f"{rows.pop()[0]}, {cell}"
        rows.append((cell, text))
    body = table(("field", "meaning"), rows) if any(text for _, text in rows) else f"{rows[0][0]}\n"
    note = texts.get(message.name, ("", ""))[0]
    return f"### {message.name}\n\n" + (f"{note}\n\n" if note else "") + body


def enums() -> str:
    """Every enum with its values."""
    texts = comments()
    descriptors = list(FILE.enum_types_by_name.values())
    for message in FILE.message_types_by_name.values():
        descriptors += message.enum_types
    rows = []
    for enum in descriptors:
        name = enum.full_name.removeprefix(f"{FILE.package}.")
        values = []
        for value in enum.values:
            added = texts.get(f"{name}.{value.name}", ("", ""))[1]
            values.append(f"{value.number}&nbsp;`{value.name}`" + (f" ({added.removesuffix('.0')})" if added else ""))
        rows.append((f"`{name}`", ", ".join(values)))
    return table(("enum", "values"), rows)


def services() -> str:
    """Every method of both services, except events."""
    texts = comments()
    rows = []
    for service in FILE.services_by_name.values():
        if service.name == "HostFunctions":
            continue
        for method in service.methods:
            if method.name in {event.rpc for event in EVENTS}:
                continue
            types = (method.input_type.name, method.output_type.name)
            usual = types == (f"{method.name}Request", f"{method.name}Response")
            names = "" if usual else f" Takes `{types[0]}`, returns `{types[1]}`."
            rows.append((service.name, f"`{method.name}`", texts[f"{service.name}.{method.name}"][0] + names))
    return table(("service", "method", "meaning"), rows)


def events() -> str:
    """Every event: number, bit, what is used of the reply, whether old peers get it through StateChange."""
    rows = [
        (
            str(spec.number),
            f"`{spec.rpc}`",
            f"`{spec.bit:#06x}`",
            REPLIES.get(spec.rpc, "nothing"),
            "yes" if spec.relayed else "no",
            spec.since,
        )
        for spec in EVENTS
    ]
    return table(("#", "event", "bit", "used of the reply", "relayed by StateChange", "since"), rows)


def runtime_versions() -> str:
    """Which release of a runtime brought which NRI, for those that do not say."""
    rows = [
        (name, ", ".join(f"{release.removeprefix('v')}: {nri.removeprefix('v')}" for release, nri in RUNTIMES[name]))
        for name in RUNTIMES
    ]
    return table(("runtime", "first release: its NRI"), rows)


def go_table(names: Iterable[tuple[str, str, str]]) -> Callable[[], str]:
    """One table of `go_names`, without setters that differ in nothing but the spelling."""

    def regular(go: str, python: str) -> bool:
        return go.replace("Linux", "").lower() == python.replace("_", "")

    rows = [(f"`{go}`", f"`{python}`", note) for go, python, note in names if note or not regular(go, python)]
    return lambda: table(("Go", "Python", "what differs"), rows)


def knobs() -> str:
    """Every cgroup setting, with its file on both versions."""

    def files(places: tuple[Place, ...], instead: str) -> str:
        names = [f"[`{place.file}`]" if place.only else f"`{place.file}`" for place in places]
        return ", else ".join(names) or (f"none: {instead}" if instead else "none")

    rows = []
    for row in KNOBS.values():
        kernels = dict.fromkeys(place.only for place in (*row.v1, *row.v2) if place.only)
        since = ", ".join([*([f"Linux {row.since}"] if row.since else []), *kernels])
        since = since.replace("Anolis OS and Alibaba Cloud Linux", "Anolis")
        rows.append(
            (
                f"`{row.name}`",
                row.unit.removesuffix(", -1 for no limit"),
                files(row.v1, row.instead),
                files(row.v2, row.instead),
                since,
            )
        )
    nested = ", ".join(f"`{row.name}`" for row in KNOBS.values() if row.nested)
    return f"{table(('knob', 'value', 'cgroup v1', 'cgroup v2', 'kernels'), rows)}\nNested knobs: {nested}.\n"


def plugin_needs() -> str:
    """The access to a node that each bundled plugin needs, from deploy/plugins.yaml."""
    rows, none = [], []
    for need in deployment.read():
        paths = ", ".join(f"`{mount.host}`{' (written)' if mount.write else ''}" for mount in need.mounts) or "-"
        powers = ", ".join(f"{name} ({why})" for name, why in need.capabilities.items()) or "-"
        network = "the node's" if need.host_network else "-"
        if {paths, powers, network} == {"-"}:
            none.append(f"`{need.name}`")
        else:
            rows.append((f"`{need.name}`", paths, powers, network))
    body = table(("plugin", "paths of the node, to read", "capabilities", "network"), rows)
    return f"{body}\nThese need nothing: {', '.join(none)}.\n"


def plugin_effects() -> str:
    """What becomes of what pods ask the bundled plugins for, as measured on each runtime; notes below it."""
    requests_by_cells: dict[tuple[str, ...], list[str]] = {}
    effective: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    for plugin, request, *cells, note in bundled_matrix.rows():
        short = request.replace(".noderesource.dev", "")
        if set(cells) == {"effective"}:
            effective.setdefault(plugin, []).append(short)
        else:
            requests_by_cells.setdefault((plugin, *cells), []).append(short)
        if note:
            notes.setdefault(note, []).append(short)
    rows, before = [], ""
    for (plugin, *cells), requests in requests_by_cells.items():
        rows.append((plugin if plugin != before else "", ", ".join(requests), *cells))
        before = plugin
    runtimes = ("containerd 1.7", "containerd 2.1", "containerd 2.4", "our engine")
    lines = (f"- {', '.join(request)}: {note}." for note, request in notes.items())
    everywhere = "; ".join(f"{plugin}: {', '.join(requests)}" for plugin, requests in effective.items())
    return "\n".join(
        [f"Effective in all runtimes: {everywhere}.\n", table(("plugin", "requested", *runtimes), rows), *lines]
    )


def agent_metrics() -> str:
    """Every metric of the node agent."""
    rows = [(f"`nri_agent_{name}`", kind, ", ".join(labels), words) for name, (kind, labels, words) in METRICS.items()]
    return table(("metric", "kind", "labels", "meaning"), rows)


def proxy_table() -> str:
    """What of an adjustment the proxy can put into requests of the CRI, and what not, with the reason."""
    rows = [(f"`{path}`", f"`{row.how}`", row.limits) for path, row in TABLE.items() if row.how]
    fields: dict[str, list[str]] = {}
    for path, row in TABLE.items():
        if not row.how:
            fields.setdefault(row.limits, []).append(f"`{path}`")
    reasons = "".join(f"- {', '.join(paths)}: {reason}.\n" for reason, paths in fields.items())
    return f"{table(('field', 'in the CRI', 'limits'), rows)}\nNot in the CRI:\n\n{reasons}"


def rows_of(function: Callable[[], Iterable[tuple[str, ...]]]) -> Callable[[], str]:
    """A table of rows, the first of which is its head."""

    def text() -> str:
        head, *rows = function()
        return table(head, rows)

    return text


REGIONS: dict[str, Callable[[], str]] = {
    "deviations-choices": rows_of(deviations("choices")),
    "deviations-quirks": rows_of(deviations("quirks")),
    "deviations-rules-adjustments": rows_of(deviations("rules: merging adjustments")),
    "deviations-rules-limits": rows_of(deviations("rules: limits")),
    "deviations-rules-oci": rows_of(deviations("rules: the OCI spec")),
    "deviations-rules-plugins": rows_of(deviations("rules: failure policy, life, plugins")),
    "deviations-rules-updates": rows_of(deviations("rules: merging updates and evictions")),
    "agent-modes": rows_of(agent_tables.modes),
    "agent-needs": rows_of(agent_tables.needs),
    "agent-metrics": agent_metrics,
    "agent-settings": settings_tables.agent_settings,
    "engine-settings": settings_tables.engine_settings,
    "proxy-table": proxy_table,
    "knobs": knobs,
    "plugin-effects": plugin_effects,
    "plugin-needs": plugin_needs,
    "messages": messages,
    "enums": enums,
    "services": services,
    "events": events,
    "runtime-versions": runtime_versions,
    "go-setters": go_table([*go_names.ADJUSTMENT, *go_names.RESOURCES, *go_names.UPDATE]),
    "go-functions": go_table(go_names.FUNCTIONS),
}


def fill(text: str) -> str:
    """A page with its regions written again. KeyError for a region that nobody generates."""
    return REGION.sub(lambda match: f"{match[1]}\n{REGIONS[match['name']]().strip()}\n\n{match[3]}", text)


def main() -> int:
    """Write or compare all pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    code = 0
    for page in sorted(ROOT.glob("docs/**/*.md")):
        old = page.read_text(encoding="utf-8")
        new = fill(old)
        if new == old:
            continue
        if check:
            print(f"{page.relative_to(ROOT)}: out of date, run: python tools/generate_docs.py")
            code = 1
        else:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
