"""The memory of a list of pods in a separate process, below the limit in deploy/agent.yaml."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path

import pytest
import yaml

from nri.kube import quantity
from nri.kube.decoder import MAX_POD_FACTOR
from nri.kube.lists import MAX_OBJECT_BYTES
from nri.kube.object_cache import MAX_KEPT_BYTES
from tests.support.http_server import Answer, HttpServer, status

DAEMONSET = Path(__file__).parents[4] / "deploy/kustomize/agent/base/daemonset.yaml"
LIST_BYTES = 48 << 20
#: Of one object while it is read: its bytes twice, and its values before they are counted.
READING_BYTES = 24 * MAX_OBJECT_BYTES
_READ = """
import sys
from pathlib import Path
from nri.kube.client import PODS, connect
def peak():  # of this program: getrusage has that of the process which it was before, too
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10
with connect(sys.argv[1]) as api:
    api.list(PODS)
    before = peak()
    kept, _ = api.list(PODS)
    print(peak() - before, len(kept.objects), kept.problem.partition(":")[0])
"""


def _pod(number: int, metadata: bytes = b"", container: bytes = b"", status: bytes = b"", spec: bytes = b"") -> bytes:
    """A pod as an apiserver writes it, with more in its parts."""
    return (
        b'{"metadata":{"name":"p%d","namespace":"shop","uid":"2b1f0c5e-0d3a-4a77-9f8e-%012d","resourceVersion":"7"%b},'
        b'"spec":{%b"containers":[{"name":"c","image":"i","resources":{},"imagePullPolicy":"Always"%b}],"nodeName":"n"},'
        b'"status":{"phase":"Running","qosClass":"BestEffort"%b}}'
    ) % (number, number, metadata, spec, container, status)


_CONTAINER = (
    b'{"name":"c%d","image":"i","resources":{},"terminationMessagePath":"/dev/termination-log",'
    b'"terminationMessagePolicy":"File","imagePullPolicy":"Always"}'
)
_STATUS = (
    b'{"name":"c%d","state":{"waiting":{"reason":"PodInitializing"}},"lastState":{},"ready":false,"restartCount":0}'
)


def _some(text: bytes, number: int) -> bytes:
    return b",".join(text % index if b"%d" in text else text for index in range(number))


SHAPES = {
    "environment": lambda number: _pod(number, container=b',"env":[' + _some(b'{"name":"a"}', 105_000) + b"]"),
    "managed fields": lambda number: _pod(number, b',"managedFields":[{"f":{' + _some(b'"f:a%d":{}', 90_000) + b"}}]"),
    "labels": lambda number: _pod(number, b',"labels":{' + _some(b'"a%d":""', 110_000) + b"}"),
    "labels of many pods": lambda number: _pod(number, b',"labels":{' + _some(b'"a%d":""', 300) + b"}"),
    "annotations": lambda number: _pod(number, b',"annotations":{' + _some(b'"a%d":"b"', 20_000) + b"}"),
    "containers": lambda number: _pod(number, container=b"}," + _some(_CONTAINER, 8_000)[:-1]),
    "statuses": lambda number: _pod(number, status=b',"containerStatuses":[' + _some(_STATUS, 12_000) + b"]"),
    "volumes": lambda place: _pod(place, spec=b'"volumes":[' + _some(b'{"name":"v%d","hostPath":{}}', 45_000) + b"],"),
    "small pods": _pod,
    "one text": lambda number: _pod(number, b',"annotations":{"a":"' + b"x" * 250_000 + b'"}'),
    "larger than taken": lambda number: _pod(number, container=b',"image":"' + b"x" * 2 * MAX_OBJECT_BYTES + b'"'),
}  # fmt: skip


def _list(shape: str, size: int) -> Iterator[bytes]:
    """The parts of a list of about `size` bytes, one pod at a time, to limit the memory of the server."""
    yield b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":['
    for number in count():
        pod = SHAPES[shape](number)
        size -= len(pod)
        yield pod if not number else b"," + pod
        if size <= 0:
            break
    yield b"]}"


def _answer(shape: str, size: int) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        for part in _list(shape, size):
            request.wfile.write(part)

    return answer


@pytest.mark.parametrize("shape", SHAPES)
def test_the_memory_of_a_list_is_bounded_by_its_bytes_and_in_total(
    server: HttpServer, kubeconfig: Path, shape: str
) -> None:
    server.script(_answer("small pods", 1), _answer(shape, LIST_BYTES))
    process = subprocess.run(
        [sys.executable, "-c", _READ, str(kubeconfig)], capture_output=True, text=True, timeout=100, check=False
    )
    assert process.returncode == 0, process.stderr
    peak, cache = (int(number) for number in process.stdout.split()[:2])
    print(f"{shape}: {peak / LIST_BYTES:.2f} bytes for a byte, {cache} pods kept: {process.stdout.strip()}")
    assert peak <= MAX_POD_FACTOR * LIST_BYTES
    assert peak <= MAX_KEPT_BYTES + READING_BYTES
    assert cache or "omitted" in process.stdout


_FOLLOW = """
import sys, time
from pathlib import Path
import nri.agent.agent, nri.agent.loops, nri.agent.koordinator.profile
from nri.agent.pods.apiserver import ApiserverPods
from nri.agent.settings import AgentSettings
from nri.agent.settings.values import RuleSettings
rules = RuleSettings(source="apiserver", kubeconfig=sys.argv[1], node_name="n")
source = ApiserverPods(AgentSettings(rules=rules))
for _ in range(2):
    source._follower.run_once()
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10, len(source.pods()))
"""


@pytest.mark.parametrize("shape", ["containers", "one text"])
def test_an_agent_that_lists_again_stays_below_its_memory_limit(
    server: HttpServer, kubeconfig: Path, shape: str
) -> None:
    (agent,) = [number for number in yaml.safe_load_all(DAEMONSET.read_text()) if number["kind"] == "DaemonSet"]
    (limits,) = [number["resources"]["limits"] for number in agent["spec"]["template"]["spec"]["containers"]]
    limit = quantity.parse(limits["memory"])
    server.script(_answer(shape, LIST_BYTES), status(410, "too old"), _answer(shape, LIST_BYTES))
    process = subprocess.run(
        [sys.executable, "-c", _FOLLOW, str(kubeconfig)], capture_output=True, text=True, timeout=100, check=False
    )
    assert process.returncode == 0, process.stderr
    peak, pods = map(int, process.stdout.split())
    print(f"{shape}: {peak >> 20} MiB for an agent with {pods} pods, of {limit / (1 << 20)}")
    assert pods and peak <= limit * 3 / 4
