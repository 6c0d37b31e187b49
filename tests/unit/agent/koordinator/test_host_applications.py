"""Host applications by name."""

import pytest

from nri.agent.koordinator import host_applications


def test_host_applications_are_by_name_and_the_last_one_counts() -> None:
    found = host_applications.by_name([{"name": "a", "qos": "LS"}, {"name": "a", "qos": "BE"}])
    assert found == {"a": {"name": "a", "qos": "BE"}}
    assert host_applications.by_name(None) == {}
    with pytest.raises(ValueError, match=r"hostApplications\[0\]\.name"):
        host_applications.by_name([{"name": 5}])
