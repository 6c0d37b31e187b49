"""Host applications."""

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
def test_a_host_application_has_its_own_path_or_that_of_its_class(application: dict[str, object], path: str) -> None:
    assert host_application.host_application_path(application) == path


def test_of_host_applications_with_one_name_the_last_one_counts() -> None:
    actual = host_application.by_name([{"name": "a", "qos": "LS"}, {"name": "a", "qos": "BE"}])
    assert actual == {"a": {"name": "a", "qos": "BE"}}
    assert host_application.by_name(None) == {}
    with pytest.raises(ValueError, match=r"hostApplications\[0\]\.name"):
        host_application.by_name([{"name": 5}])
