"""Programs of the host."""

from __future__ import annotations

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


def test_host_applications_are_by_name_and_the_last_one_counts() -> None:
    actual = host_application.by_name([{"name": "a", "qos": "LS"}, {"name": "a", "qos": "BE"}])
    assert actual == {"a": {"name": "a", "qos": "BE"}}
    assert host_application.by_name(None) == {}
    with pytest.raises(ValueError, match=r"hostApplications\[0\]\.name"):
        host_application.by_name([{"name": 5}])
