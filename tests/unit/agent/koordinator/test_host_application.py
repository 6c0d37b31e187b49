"""Programs of the host."""

import pytest

from nri.agent.koordinator import host_application


@pytest.mark.parametrize(
    ("application", "path"),
    [
        ({"name": "a", "qos": "LS"}, "host-latency-sensitive/a"),
        ({"name": "a", "qos": "BE"}, "host-best-effort/a"),
        ({"name": "a"}, "a"),
        ({"cgroupPath": {"base": "Kubepods", "parentDir": "p", "relativePath": "r"}}, "kubepods.slice/p/r"),
        ({"cgroupPath": {"base": "CgroupRoot", "relativePath": "r"}}, "r"),
        (None, ""),
    ],
)
def test_a_host_application_is_where_it_says_or_where_its_class_is(application: dict[str, object], path: str) -> None:
    assert host_application.host_application_path(application) == path
