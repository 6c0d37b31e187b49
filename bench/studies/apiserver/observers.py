"""Programs that print each container that they learn of: `python -m bench.studies.apiserver.observers HOW WHERE`.

HOW is `nri` (WHERE: the runtime's socket), `watch` or `poll` (WHERE: a kubeconfig). Each prints JSON lines with
`what`, `id` (a container's, or a pod's uid before its containers exist) and `ns`, the time of day at which it could
act: after decoding the event. The first line is `{"what": "ready"}`.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from pathlib import Path
from typing import Any

import nri
from bench.studies.cluster import NODE_PODS, Place, unchecked

#: Pause between two lists of the poller, in seconds.
POLL_S = 1.0
CREATED, RUNNING, POD = "created", "running", "pod"


def tell(what: str, name: str = "") -> None:
    """Print one line."""
    sys.stdout.write(json.dumps({"what": what, "id": name, "ns": time.time_ns()}) + "\n")
    sys.stdout.flush()


class Observer(nri.Plugin):
    """Tells containers before they are created, and when they run."""

    def synchronize(self, pods: Any, containers: Any) -> None:
        tell("ready")

    def run_pod_sandbox(self, pod: Any) -> None:
        tell(POD, pod.uid)

    def create_container(self, pod: Any, container: Any) -> None:
        tell(CREATED, container.id)

    def post_start_container(self, pod: Any, container: Any) -> None:
        tell(RUNNING, container.id)


class Printer:
    """Prints what is new of a pod in the API."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def take(self, pod: Any) -> None:
        """Print what is new of a pod."""
        self._print_once(POD, pod["metadata"]["uid"])
        for row in pod["status"].get("containerStatuses") or []:
            if "running" in row["state"] and row.get("containerID"):
                self._print_once(RUNNING, row["containerID"].partition("://")[2])

    def _print_once(self, what: str, name: str) -> None:
        if name not in self._printed:
            self._printed.add(name)
            tell(what, name)


def connection(place: Place) -> http.client.HTTPSConnection:
    """A new one, without a deadline: a watch may be silent."""
    return http.client.HTTPSConnection(place.host, place.port, context=unchecked())


def get(api: http.client.HTTPSConnection, place: Place, path: str) -> http.client.HTTPResponse:
    """Ask; RuntimeError if the answer is an error."""
    api.request("GET", path, headers=place.headers())
    answer = api.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"GET {path}: HTTP {answer.status}")
    return answer


def watch(place: Place) -> None:
    """List, then follow what changes."""
    api, printer = connection(place), Printer()
    pod_list = json.loads(get(api, place, NODE_PODS).read())
    for pod in pod_list["items"]:
        printer.take(pod)
    answer = get(api, place, f"{NODE_PODS}&watch=1&resourceVersion={pod_list['metadata']['resourceVersion']}")
    tell("ready")
    while line := answer.readline():
        event = json.loads(line)
        if event["type"] in ("ADDED", "MODIFIED"):
            printer.take(event["object"])


def poll(place: Place) -> None:
    """List from the API server's cache, again and again."""
    api, printer = connection(place), Printer()
    first = True
    while True:
        began = time.monotonic()
        for pod in json.loads(get(api, place, NODE_PODS + "&resourceVersion=0").read())["items"]:
            printer.take(pod)
        if first:
            tell("ready")
            first = False
        time.sleep(max(0.0, POLL_S - (time.monotonic() - began)))


def main() -> None:
    """Do what the command line says."""
    how, where = sys.argv[1:3]
    if how == "nri":
        Observer.main(["--idx", "96", "--name", "observer", "--socket-path", where, "--log-level", "error"])
    else:
        {"watch": watch, "poll": poll}[how](Place.of(Path(where)))


if __name__ == "__main__":
    main()
