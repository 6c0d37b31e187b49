"""Probes of a real kubelet and their effects on a container."""

from __future__ import annotations

from tests.kubernetes.conftest import RunPod
from tests.kubernetes.node import condition
from tests.kubernetes.pods import UNTIL_TERM, container, pod, probe

SERVE = "mkdir /www; echo fine > /www/index.html; exec httpd -f -p 8080 -h /www"


def test_a_container_with_a_failing_liveness_probe_is_restarted(run: RunPod) -> None:
    alive = f"touch /tmp/alive; (sleep 2; rm /tmp/alive) & {UNTIL_TERM}"
    static = run(pod("dying", container("main", alive, livenessProbe=probe("test -e /tmp/alive"))))
    static.wait_ready()
    first = static.container_id()
    static.wait_restarted()
    static.wait_ready()
    row = static.container()
    assert first in row["lastState"]["terminated"]["containerID"]
    assert static.container_id() != first


def test_a_container_with_successful_probes_is_not_restarted(run: RunPod) -> None:
    static = run(pod("living", container("main", SERVE, livenessProbe=probe("wget -q -O - localhost:8080"))))
    static.wait_ready()
    first = static.container_id()
    assert static.run("/bin/wget", "-q", "-O", "-", "localhost:8080").strip() == "fine"
    assert (static.container_id(), static.container()["restartCount"]) == (first, 0)


def test_a_container_is_ready_only_while_its_readiness_probe_succeeds(run: RunPod) -> None:
    static = run(pod("moody", container(readinessProbe=probe("test -e /tmp/ready"))))
    static.wait_running()
    assert condition(static.status, "Ready") == "False"
    static.run("/bin/touch", "/tmp/ready")
    static.wait_ready()
    static.run("/bin/rm", "/tmp/ready")
    static.wait(lambda status: condition(status, "Ready") == "False", "unready")
    assert static.container()["restartCount"] == 0


def test_a_container_counts_as_started_after_its_startup_probe_succeeds(run: RunPod) -> None:
    slow = f"(sleep 2; touch /tmp/up) & {UNTIL_TERM}"
    static = run(pod("slow", container("main", slow, startupProbe=probe("test -e /tmp/up", failureThreshold=20))))
    static.wait_running()
    assert static.container()["started"] is False
    static.wait_ready()
    assert static.container()["started"] is True


def test_http_and_tcp_probes_reach_the_pods_address(run: RunPod) -> None:
    http = {"httpGet": {"path": "/index.html", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
    tcp = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 5}
    static = run(pod("served", container("main", SERVE, readinessProbe=http, livenessProbe=tcp)))
    static.wait_ready()
    assert static.container()["restartCount"] == 0


def test_a_probe_that_takes_too_long_fails(run: RunPod) -> None:
    static = run(pod("tardy", container(readinessProbe=probe("test -e /tmp/fast || sleep 30", timeoutSeconds=1))))
    static.wait_running()
    static.run("/bin/touch", "/tmp/fast")
    static.wait_ready()
    static.run("/bin/rm", "/tmp/fast")
    static.wait(lambda status: condition(status, "Ready") == "False", "unready")
    assert static.container()["restartCount"] == 0
