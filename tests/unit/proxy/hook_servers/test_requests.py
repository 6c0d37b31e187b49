"""Hook requests from CRI requests."""

from nri.proxy.hook_servers import requests


def test_hook_requests_have_values_of_the_cri_request_and_the_record() -> None:
    pod = requests.pod_of_run(
        {
            "runtime_handler": "runc",
            "config": {
                "metadata": {"name": "n", "uid": "u", "namespace": "ns", "attempt": 1},
                "labels": {"l": "1"},
                "linux": {"cgroup_parent": "/p"},
            },
        }
    )
    assert pod == {
        "pod_meta": {"name": "n", "uid": "u", "namespace": "ns"},
        "runtime_handler": "runc",
        "labels": {"l": "1"},
        "cgroup_parent": "/p",
    }
    container = requests.container_of_create(
        {"config": {"metadata": {"name": "c"}, "envs": [{"key": "A", "value": b"1"}]}}, pod
    )
    assert container["container_envs"] == {"A": "1"}
    assert container["pod_labels"] == {"l": "1"}
    updated = requests.container_of_update({"linux": {"cpu_shares": 5}}, {"container_resources": {"cpu_shares": 2}})
    assert updated["container_resources"]["cpu_shares"] == 5


def test_pods_with_the_label_are_skipped() -> None:
    assert requests.skipped({"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    assert not requests.skipped({"runtimeproxy.koordinator.sh/skip-hookserver": "false"})
    assert not requests.skipped(None)
