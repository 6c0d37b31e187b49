"""The demo with the engine of this project: a pod, two plugins, their changes, and the specs compared.

Without root or an OCI runtime the engine is a dry one: everything but the call of the OCI runtime. The demo says so,
and fails in CI.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.demo.plugins import DEMO, ROOT, SCRATCH, compare_rows, ignore_signals, listing, start, wait_for_plugin
from tools.demo.screen import Screen
from tools.runtimes import MissingError
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.images import image_archive
from tools.runtimes.look import MEMORY_BYTES, POD_NAME, look, look_dry, mebibytes
from tools.runtimes.machine import ensure_packages

#: Commands that run in the container, by the title of their output.
COMMANDS = {
    "open files, at most": "ulimit -n",
    "size of /scratch": "df -k /scratch 2>/dev/null | awk 'NR > 1 { print $2 / 1024 \" MiB\" }'",
}
NRI = [sys.executable, "-m", "nri"]


def run(screen: Screen, *, keep: bool, dry: bool) -> None:
    """Show the same container without and with the plugins. MissingError if CI is set and it would be a dry run."""
    screen.heading("Two ten-line Python plugins change a real container")
    why = "requested" if dry else "" if os.geteuid() == 0 else "containers need root"
    if not why:
        why = packages(screen)
    if why and os.environ.get("CI"):
        raise MissingError("a real container, because CI is set", why)
    if why:
        screen.say(f"  A dry run: {why}. Everything happens except the container itself.\n")
    engine = Engine(say=screen.note, dry=bool(why))
    try:
        with screen.step("starting the engine of this project, nri engine serve") as outcome:
            engine.start()
            outcome.append(f"started the engine of this project, nri engine serve; all of it is in {engine.run_dir}")
        compare(screen, engine)
    except BaseException:
        clean_up(screen, engine)
        raise
    if keep:
        container = keep_pod(screen, engine)
        engine.detach()
        keep_hints(screen, engine, container)
    else:
        clean_up(screen, engine)
        next_steps(screen, dry=engine.dry)


def packages(screen: Screen) -> str:
    """Install the packages of the engine. Returns the reason if that fails, else an empty text."""
    try:
        with screen.step(f"{', '.join(PACKAGES)}: used by the engine"):
            ensure_packages(screen.note, PACKAGES)
        with screen.step("a busybox image, made on this machine"):
            image_archive(screen.note)
    except MissingError as error:
        return f"missing: {error}"
    return ""


def compare(screen: Screen, engine: Engine) -> None:
    """Run the pod twice; print the differences and their reasons."""
    request = f"a pod and a container that asks for {MEMORY_BYTES >> 20} MiB"
    texts: list[str] = []
    with screen.step(f"{request}, without plugins"):
        before = see(engine, lambda container: texts.append(keep_spec(engine, container, "without.json")))
    start_plugins(screen, engine)
    with screen.step("the same pod and container again, with the plugins"):
        after = see(engine, lambda container: texts.extend(explain(engine, container)))
    screen.heading("The container's view, by its OCI spec" if engine.dry else "The container's view")
    compare_rows(screen, before, after, "plugins")
    _, short_id, why, difference = texts
    screen.heading(f"Who changed what:  nri why {short_id}")
    show(screen, why)
    screen.heading("Changes in the OCI runtime's input:  nri spec diff without.json with.json")
    show(screen, difference)
    screen.say()


def see(engine: Engine, meanwhile: Callable[[str], object]) -> dict[str, str]:
    """Rows of what a container sees, or of a dry one's spec."""
    if not engine.dry:
        return look(engine.cri, COMMANDS, meanwhile).rows()
    spec = look_dry(engine.cri, meanwhile)
    process, limits = spec["process"], spec["linux"]["resources"]["memory"]
    rows = {f"env {name}": value for name, _, value in (one.partition("=") for one in sorted(process["env"]))}
    rows["memory limit"] = mebibytes(str(limits["limit"]))
    for limit in process.get("rlimits") or ():
        rows["open files, at most"] = str(limit["soft"])
    for mount in spec["mounts"]:
        if mount["destination"] == "/scratch":
            rows["/scratch"] = ", ".join(mount["options"])
    return rows


def start_plugins(screen: Screen, engine: Engine) -> None:
    """Start both, and show them."""
    for plugin, index in ((DEMO, "10"), (SCRATCH, "20")):
        name = plugin.relative_to(ROOT)
        with screen.step(f"starting plugin {index}, {name}") as outcome:
            process = start(plugin, index, engine.nri_socket, engine.run_dir)
            wait_for_plugin(process, functools.partial(is_active, engine, f"{index}-{plugin.stem}"), engine.run_dir)
            outcome.append(f"started plugin {index}, {name}:")
        listing(screen, plugin)


def is_active(engine: Engine, name: str) -> bool:
    """Whether a plugin is active, by `nri why --plugins`."""
    rows = json.loads(nri("why", "--plugins", "--admin-socket", engine.admin_socket, "-o", "json"))
    return any(row["plugin"] == name and row["state"] == "active" for row in rows)


def keep_spec(engine: Engine, container: str, name: str) -> str:
    """Write a container's OCI spec without values that differ in every container; returns its path."""
    info = engine.cri.info(container)
    text = json.dumps(info["runtimeSpec"])
    for identity, word in ((container, "CONTAINER"), (info["sandboxID"], "POD"), *uids(info["runtimeSpec"])):
        text = text.replace(identity, word)
    path = engine.run_dir / name
    path.write_text(text)
    return str(path)


def uids(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pod's uid, which is in annotations of the spec."""
    values = (value for key, value in (spec.get("annotations") or {}).items() if key.endswith("uid"))
    return [(uid, "UID") for uid in values if uid]


def explain(engine: Engine, container: str) -> list[str]:
    """The container's short id, the output of `nri why`, and `nri spec diff` of both specs."""
    keep_spec(engine, container, "with.json")
    why = nri("why", container, "--admin-socket", engine.admin_socket)
    difference = nri("spec", "diff", engine.run_dir / "without.json", engine.run_dir / "with.json")
    return [container[:13], why, difference]


def nri(*arguments: str | Path) -> str:
    """The output of the command."""
    process = subprocess.run([*NRI, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=30)
    return process.stdout or process.stderr


def show(screen: Screen, text: str) -> None:
    """Print the output of a command."""
    for line in text.rstrip("\n").split("\n"):
        screen.say(f"  {line}")


def clean_up(screen: Screen, engine: Engine) -> None:
    """Remove every trace; further interruptions have to wait for this."""
    ignore_signals()
    with screen.step("cleaning up") as outcome:
        engine.close()
        outcome.append("cleaned up: pods, processes, cgroups, mounts and files are gone")


def next_steps(screen: Screen, *, dry: bool) -> None:
    """Print what to try next."""
    screen.heading("What to try next")
    if dry:
        screen.say("  sudo make demo                     the same with a real container")
    screen.say(f"  edit {DEMO.relative_to(ROOT)} and run this again: it takes seconds now")
    screen.say("  make demo ARGS=--keep              leave engine, plugins and a pod running")
    screen.say("  make demo ARGS='--containerd 2.1'  the first plugin in a real containerd")
    screen.say("  docs/quickstart.md                 write a plugin of your own, test it, deploy it")
    screen.say("  docs/howto/engine.md               run the engine under a kubelet\n")


def keep_pod(screen: Screen, engine: Engine) -> str:
    """Run a pod that stays, with a container that prints its settings; returns the container's id."""
    with screen.step("a pod to look at") as outcome:
        command = ("/bin/sh", "-c", "env; ulimit -n; df -k /scratch; while true; do sleep 1000; done")
        container = engine.cri.run(engine.cri.run_pod(POD_NAME), "main", command, memory_limit_in_bytes=MEMORY_BYTES)
        outcome.append(f"pod {POD_NAME} with container {container[:13]} stays")
    return container


def keep_hints(screen: Screen, engine: Engine, container: str) -> None:
    """Print how to use what is still running, and how to end it."""
    command = Path(sys.executable).with_name("nri")
    python, socket, cri = Path(sys.executable), engine.nri_socket, engine.cri_socket
    screen.heading("Everything is still running")
    screen.say(f"  NRI socket      {socket}")
    screen.say(f"  CRI socket      {cri}")
    screen.say(f"  engine's log    {engine.log}")
    screen.say(f"  pods            {command} pod ps --cri-socket {cri}")
    if not engine.dry:
        screen.say(f"  its log         {command} pod logs {POD_NAME} --cri-socket {cri}")
    screen.say(f"  who changed it  {command} why {container[:13]} --admin-socket {engine.admin_socket}")
    screen.say(f"  plugins         {command} why --plugins --admin-socket {engine.admin_socket}")
    screen.say(f"  your plugin     {python} YOUR_PLUGIN.py --idx 30 --socket-path {socket}")
    if not engine.dry:
        screen.say(f"  another one     {python} -m tools.runtimes look {engine.run_dir}")
    screen.say(f"  end it all      {python} -m tools.runtimes clean\n")
