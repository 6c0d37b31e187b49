"""The demo: a ten-line Python plugin changes a real container in a real containerd.

    python tools/demo/demo.py [--containerd 1.7|2.1|2.4] [--keep]

Rules: everything happens in a private containerd that is gone at the end, also after Ctrl-C
or SIGTERM; every step says what it does; what is missing is said in one line. Exit codes:
0 shown, 1 cannot run or failed, 2 wrong usage, 130 and 143 interrupted.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.demo.screen import Screen  # noqa: E402
from tools.runtimes import RELEASES, Containerd, MissingError, install  # noqa: E402
from tools.runtimes.images import image_archive  # noqa: E402
from tools.runtimes.leftovers import sweep  # noqa: E402
from tools.runtimes.look import MEMORY_BYTES, look  # noqa: E402
from tools.runtimes.machine import ensure_packages, last_line, require_root  # noqa: E402

PLUGIN = ROOT / "examples/demo.py"
PLUGIN_START_TIMEOUT_S = 20.0
NOT_SET = "(not set)"


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--containerd", choices=RELEASES, default="1.7", help="which release (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end, to try things out")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    screen = Screen()
    try:
        run(screen, arguments.containerd, keep=arguments.keep)
    except MissingError as error:
        print(f"error: the demo cannot run here: it needs {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything is cleaned up", file=sys.stderr)
        return 130
    except SystemExit:
        print("terminated; everything is cleaned up", file=sys.stderr)
        return 143
    return 0


def run(screen: Screen, key: str, *, keep: bool) -> None:
    """Show the same container without and with the plugin."""
    screen.heading("A ten-line Python plugin changes a real container")
    require_root()
    sweep()
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
    """Run the pod twice, print what differs."""
    with screen.step(f"a pod and a container that asks for {MEMORY_BYTES >> 20} MiB, without the plugin"):
        before = look(daemon.cri)
    with screen.step(f"starting the plugin, {PLUGIN.relative_to(ROOT)}") as outcome:
        start_plugin(daemon)
        outcome.append(f"started the plugin, {PLUGIN.relative_to(ROOT)}:")
    screen.listing(plugin_text())
    with screen.step("the same pod and container again, with the plugin"):
        after = look(daemon.cri)
    screen.heading("What the container sees")
    rows_before, rows_after = before.rows(), after.rows()
    titles = [*(title for title in rows_after if title.startswith("env ")), *rows_before, *rows_after]
    screen.table(
        ("", "without the plugin", "with the plugin"),
        [(title, rows_before.get(title, NOT_SET), rows_after.get(title, NOT_SET)) for title in dict.fromkeys(titles)],
    )
    screen.say()


def start_plugin(daemon: Containerd) -> None:
    """Start the example in the background and wait until the runtime has taken it in."""
    log = daemon.run_dir / "plugin.log"
    with open(log, "wb") as output:
        plugin = subprocess.Popen(
            [sys.executable, PLUGIN, "--idx", "10", "--socket-path", daemon.nri_socket],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + PLUGIN_START_TIMEOUT_S
    # What containerd logs when a plugin is registered, configured and synchronized.
    while not daemon.log_lines("plugin .*10-demo.* connected"):
        if plugin.poll() is not None or time.monotonic() > deadline:
            raise MissingError("a plugin that starts", last_line(log.read_text()))
        time.sleep(0.02)


def plugin_text() -> list[str]:
    """The lines of the example."""
    return PLUGIN.read_text().strip().splitlines()


def clean_up(screen: Screen, daemon: Containerd) -> None:
    """Remove every trace; further interruptions have to wait for this."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with screen.step("cleaning up") as outcome:
        daemon.close()
        outcome.append("cleaned up: pods, processes, cgroups, mounts and files are gone")


def next_steps(screen: Screen) -> None:
    """Say what to try next."""
    screen.heading("What to try next")
    screen.say(f"  edit {PLUGIN.relative_to(ROOT)} and run this again: it takes seconds now")
    screen.say("  make demo ARGS=--keep              leave containerd and the plugin running")
    screen.say("  make demo ARGS='--containerd 2.1'  the same with a newer containerd")
    screen.say("  docs/quickstart.md                 write a plugin of your own, test it, deploy it\n")


def keep_hints(screen: Screen, daemon: Containerd) -> None:
    """Say how to use what was left running, and how to end it."""
    python = Path(sys.executable)
    socket = daemon.nri_socket
    screen.heading("Everything is still running")
    screen.say(f"  NRI socket      {socket}")
    screen.say(f"  CRI socket      {daemon.cri_socket}")
    screen.say(f"  containerd log  {daemon.log}")
    screen.say(f"  your plugin     {python} YOUR_PLUGIN.py --idx 20 --socket-path {socket}")
    screen.say(f"  a container     {python} -m tools.runtimes look {daemon.run_dir}")
    screen.say(f"  end it all      {python} -m tools.runtimes clean\n")


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
