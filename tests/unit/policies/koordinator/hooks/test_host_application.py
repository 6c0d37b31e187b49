"""Programs of the host."""

import pytest

from nri.policies.changes import Changes, Decision, HookError
from nri.policies.contexts import HostApplicationContext
from nri.policies.koordinator.hooks import host_application


def test_a_program_that_cannot_be_decided_stops_no_other() -> None:
    def hook(context: HostApplicationContext) -> Decision:
        if context.name == "bad":
            raise HookError("x", "bad")
        return Decision(Changes({"cpu.bvt": 2}), "why")

    writes, errors = host_application.decide([{"name": "bad", "qos": "LS"}, {"name": "good", "qos": "LS"}], [hook])
    assert [(write.folder, write.knob, write.value) for write in writes] == [
        ("host-latency-sensitive/good", "cpu.bvt", "2")
    ]
    assert len(errors) == 1


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
