"""The demo with a real containerd: the ten-line plugin changes a container."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.demo.plugins import DEMO, ROOT, compare_rows, ignore_signals, listing, start, wait_for_plugin
from tools.demo.screen import Screen
from tools.runtimes import Containerd, install
from tools.runtimes.images import image_archive
from tools.runtimes.look import MEMORY_BYTES, look
from tools.runtimes.machine import ensure_packages, require_root


def run(screen: Screen, key: str, *, keep: bool) -> None:
    """Show the same container without and with the plugin."""
    screen.heading("A ten-line Python plugin changes a real container")
    require_root()
    with screen.step("runc, which runs containers"):
        ensure_packages(screen.note, ["runc"])
    with screen.step(f"getting containerd {key} with NRI") as outcome:
        installed = install(key, screen.note)
        outcome.append(f"got {installed}")
    with screen.step("a busybox image, made on this machine"):
        image_archive(screen.note)
    daemon = Containerd(installed, say=screen.note)
    try:
        with screen.step("starting it privately") as outcome:
            daemon.start()
            outcome.append(f"started it privately, all of it in {daemon.run_dir}")
        compare(screen, daemon)
    except BaseException:
        clean_up(screen, daemon)
        raise
    if keep:
        daemon.detach()
        keep_hints(screen, daemon)
    else:
        clean_up(screen, daemon)
        next_steps(screen)


def compare(screen: Screen, daemon: Containerd) -> None:
    """Run the pod twice; print the differences."""
    with screen.step(f"a pod and a container that asks for {MEMORY_BYTES >> 20} MiB, without the plugin"):
        before = look(daemon.cri)
    name = DEMO.relative_to(ROOT)
    with screen.step(f"starting the plugin, {name}") as outcome:
        plugin = start(DEMO, "10", daemon.nri_socket, daemon.run_dir)
        # containerd logs this line when a plugin is registered, configured and synchronized.
        wait_for_plugin(plugin, lambda: daemon.log_lines("plugin .*10-demo.* connected"), daemon.run_dir)
        outcome.append(f"started the plugin, {name}:")
    listing(screen, DEMO)
    with screen.step("the same pod and container again, with the plugin"):
        after = look(daemon.cri)
    screen.heading("The container's view")
    compare_rows(screen, before.rows(), after.rows(), "the plugin")
    screen.say()


def clean_up(screen: Screen, daemon: Containerd) -> None:
    """Remove every trace; further interruptions have to wait for this."""
    ignore_signals()
    with screen.step("cleaning up") as outcome:
        daemon.close()
        outcome.append("cleaned up: pods, processes, cgroups, mounts and files are gone")


def next_steps(screen: Screen) -> None:
    """Print what to try next."""
    screen.heading("What to try next")
    screen.say(f"  edit {DEMO.relative_to(ROOT)} and run this again: it takes seconds now")
    screen.say("  make demo                          the same with the engine of this project, and who changed what")
    screen.say("  make demo ARGS='--containerd 2.1 --keep'  leave a newer containerd and the plugin running")
    screen.say("  docs/quickstart.md                 write a plugin of your own, test it, deploy it\n")


def keep_hints(screen: Screen, daemon: Containerd) -> None:
    """Print how to use what is still running, and how to end it."""
    python = Path(sys.executable)
    socket = daemon.nri_socket
    screen.heading("Everything is still running")
    screen.say(f"  NRI socket      {socket}")
    screen.say(f"  CRI socket      {daemon.cri_socket}")
    screen.say(f"  containerd log  {daemon.log}")
    screen.say(f"  your plugin     {python} YOUR_PLUGIN.py --idx 20 --socket-path {socket}")
    screen.say(f"  a container     {python} -m tools.runtimes look {daemon.run_dir}")
    screen.say(f"  end it all      {python} -m tools.runtimes clean\n")
