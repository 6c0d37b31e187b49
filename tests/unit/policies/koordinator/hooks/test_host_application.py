"""Programs of the host."""

from nri.policies.koordinator.contexts import HostApplicationContext
from nri.policies.koordinator.hooks import host_application
from nri.policies.koordinator.values import Changes, Decision, HookError


def test_a_program_that_cannot_be_decided_stops_no_other() -> None:
    def hook(context: HostApplicationContext) -> Decision:
        if context.name == "bad":
            raise HookError("x", "bad")
        return Decision(Changes(bvt=2), "why")

    writes, errors = host_application.decide([{"name": "bad", "qos": "LS"}, {"name": "good", "qos": "LS"}], [hook])
    assert [(write.folder, write.knob, write.value) for write in writes] == [
        ("host-latency-sensitive/good", "cpu.bvt", "2")
    ]
    assert len(errors) == 1
