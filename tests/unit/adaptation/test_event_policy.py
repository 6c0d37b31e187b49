"""One plugin at one event: every setting of policy.toml is applied."""

import logging
import threading
import time

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.errors import PluginError, PluginTimeout, PluginUnavailable
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.waiting import wait_for


class Inject(nri.Plugin):
    """Sets a variable; other answers by name."""

    name = "inject"

    def __init__(self, answer=None) -> None:
        self.calls: list[str] = []
        self.seen: list[str] = []
        self.answer = answer or (lambda: nri.Adjustment().add_env("A", "1"))

    def synchronize(self, pods, containers):
        self.seen = [pod.name for pod in pods] + [container.name for container in containers]

    def create_container(self, pod, container):
        self.calls.append(container.name)
        return self.answer()

    def stop_container(self, pod, container):
        self.calls.append("stop")


class Slow(Inject):
    """Answers creations when it is let go, and not before."""

    name = "inject"

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def create_container(self, pod, container):
        self.calls.append(container.name)
        self.go.wait(30)
        return super().create_container(pod, container)


class Eager(Slow):
    """Declares that it must be asked."""

    name = "inject"
    failure_policy = nri.FailurePolicy(fail_request=True)


@pytest.fixture
def runtime():
    """Makes a runtime under a policy for the plugin 10-inject."""
    created = []

    def make(policy: str, **options) -> FakeRuntime:
        created.append(FakeRuntime(policy=f'["10-inject"]\n{policy}', **options))
        return created[-1]

    yield make
    for one in created:
        one.close()


@pytest.fixture
def slow():
    plugin = Slow()
    yield plugin
    plugin.go.set()


# --- shadow


def test_the_answer_of_a_shadow_plugin_is_logged_and_not_applied(runtime, caplog):
    caplog.set_level(logging.INFO)
    reply = runtime("shadow = true").add(Inject()).create_container(make_pod(name="web"), make_container(name="app"))
    assert reply.env == {}
    expected = 'shadow plugin 10-inject at CreateContainer of default/web/app would have: Env A: - -> "1"'
    assert expected in caplog.text


def test_a_shadow_plugin_causes_no_conflict(runtime):
    node = runtime("shadow = true")
    node.add(Inject()).add(Inject(), idx="20", name="other")
    assert node.create_container().env == {"A": "1"}
    assert node.health("10-inject").latency_s > 0, "it was not asked"


def test_an_error_of_a_shadow_plugin_fails_nothing(runtime):
    requests = []

    def refuse():
        requests.append("create_container")
        raise nri.Reject("never")

    assert runtime("shadow = true").add(Inject(refuse)).create_container().env == {}
    assert requests == ["create_container"]


class Strict(nri.Plugin):
    """A validator with one answer."""

    name = "inject"

    def __init__(self, answer) -> None:
        self.answer = answer

    def validate_container_adjustment(self, request):
        self.answer()


def test_a_verdict_of_a_shadow_validator_is_ignored(runtime):
    requests = []

    def refuse():
        requests.append("validate_container_adjustment")
        raise nri.Reject("never")

    assert runtime("shadow = true").add(Strict(refuse)).create_container() is not None
    assert requests == ["validate_container_adjustment"]


def test_a_late_shadow_validator_is_ignored(runtime):
    requests, go = threading.Event(), threading.Event()
    try:
        node = runtime('shadow = true\ntimeout = "100ms"').add(Strict(lambda: (requests.set(), go.wait(30))))
        assert node.create_container() is not None
        assert requests.wait(20), "it was not asked"
        assert node.health("10-inject").state == "late"
    finally:
        go.set()


# --- allow


def test_a_forbidden_answer_fails_the_request_and_keeps_the_plugin(runtime):
    node = runtime('allow.fields = ["Mounts"]').add(Inject())
    with pytest.raises(
        PluginError, match=r"plugin 10-inject: its policy does not allow it to set Env \(allow.fields\)"
    ):
        node.create_container()
    assert node.health("10-inject").state == "active"


def test_a_plugin_cannot_change_pods_of_other_namespaces(runtime):
    node = runtime('allow.namespaces = ["dev"]').add(Inject())
    assert node.create_container(make_pod(namespace="dev")).env == {"A": "1"}
    with pytest.raises(PluginError, match='set Env in namespace "prod"'):
        node.create_container(make_pod(namespace="prod"))


def test_forbidden_events_are_not_sent(runtime):
    plugin = Inject()
    node = runtime('allow.events = ["StopContainer"]').add(plugin)
    node.create_container()
    node.stop_container()
    assert plugin.calls == ["stop"]


# --- filters


def test_a_plugin_is_called_only_for_pods_that_pass_its_filters(runtime):
    plugin = Inject()
    node = runtime('filters = { namespace = ["prod"], label = ["app=web"] }').add(plugin)
    for name, pod in {
        "right": make_pod(namespace="prod", labels={"app": "web"}),
        "elsewhere": make_pod(namespace="dev", labels={"app": "web"}),
        "unlabelled": make_pod(namespace="prod"),
    }.items():
        node.create_container(pod, make_container(name=name, pod=pod))
    assert plugin.calls == ["right"]


def test_a_filtered_pod_is_not_in_the_plugins_synchronized_state(runtime):
    pods = [make_pod(name=name, namespace=name) for name in ("prod", "dev")]
    containers = [make_container(name=f"{pod.name}-app", pod=pod) for pod in pods]
    plugin = Inject()
    runtime('filters.namespace = ["prod"]', pods=pods, containers=containers).add(plugin)
    assert plugin.seen == ["prod", "prod-app"]


# --- late, absent, broken


def test_a_late_answer_costs_the_event_and_keeps_the_plugin(runtime, slow):
    node = runtime('timeout = "100ms"').add(slow)
    assert node.create_container().env == {}
    slow.go.set()
    wait_for(lambda: node.create_container().env == {"A": "1"}, "the plugin comes back")


def test_a_timeout_for_one_event_applies_only_to_it(runtime, slow):
    node = runtime('timeout = { CreateContainer = "100ms", default = "20s" }').add(slow)
    assert node.create_container().env == {}
    slow.go.set()
    node.stop_container()
    assert slow.calls[-1] == "stop"


def test_without_keep_connected_a_late_answer_costs_the_connection(runtime, slow):
    node = runtime('timeout = "100ms"\nkeep_connected = false').add(slow)
    node.create_container()
    assert node.health("10-inject").state == "gone"


def test_fail_request_fails_unanswered_requests(runtime, slow):
    node = runtime('timeout = "100ms"\nfail_request = ["CreateContainer"]').add(slow)
    with pytest.raises(PluginTimeout, match="plugin 10-inject failed to handle CreateContainer request"):
        node.create_container()


def test_an_absent_required_plugin_blocks_creations_but_no_ending_events(runtime):
    node = runtime("required = true")
    for event in (node.run_pod_sandbox, node.create_container, node.start_container):
        with pytest.raises(PluginUnavailable, match="10-inject"):
            event()
    for event in (node.stop_container, node.remove_container, node.stop_pod_sandbox, node.remove_pod_sandbox):
        event()


def test_a_reconnected_required_plugin_ends_the_block(runtime):
    node = runtime("required = true").add(Inject())
    node.disconnect("10-inject")
    with pytest.raises(PluginUnavailable):
        node.create_container()
    node.add(Inject())
    assert node.create_container().env == {"A": "1"}


def test_an_exempt_namespace_does_not_need_the_required_plugin(runtime):
    node = runtime('required = { exempt_namespaces = ["kube-*"] }')
    node.run_pod_sandbox(make_pod(namespace="kube-system"))
    with pytest.raises(PluginUnavailable):
        node.run_pod_sandbox(make_pod(namespace="prod"))


def test_a_late_required_plugin_fails_the_request(runtime, slow):
    node = runtime('timeout = "100ms"\nrequired = true').add(slow)
    with pytest.raises(PluginTimeout):
        node.create_container()


def test_the_breaker_skips_a_silent_plugin(runtime, slow):
    node = runtime('timeout = "50ms"\nbreaker = { misses = 2, retry = "1h" }').add(slow)
    for _ in range(4):
        node.create_container()
    assert len(slow.calls) <= 2, "an open breaker lets requests through"
    assert node.health("10-inject").state == "open"


def test_an_answered_trial_closes_the_breaker(runtime, slow):
    node = runtime('timeout = "50ms"\nbreaker = { misses = 1, retry = "1ms" }').add(slow)
    node.create_container()
    assert node.health("10-inject").state == "open"
    slow.go.set()
    wait_for(lambda: node.create_container().env == {"A": "1"}, "it is let in again")
    assert node.health("10-inject").state == "active"


def test_a_required_plugin_with_an_open_breaker_refuses_at_once(runtime, slow):
    node = runtime('timeout = "50ms"\nrequired = true\nbreaker = { misses = 1, retry = "1h" }').add(slow)
    with pytest.raises(PluginTimeout):
        node.create_container()
    with pytest.raises(PluginUnavailable, match="skipped after 1 request without an answer"):
        node.create_container()


# --- who decides


def test_the_operators_policy_overrides_the_plugins_declaration(runtime, slow):
    slow.__class__ = Eager
    node = runtime('timeout = "100ms"\nfail_request = false').add(slow)
    assert node.create_container().env == {}


def test_the_plugins_declaration_applies_without_a_policy_of_the_operator(runtime, slow):
    slow.__class__ = Eager
    node = runtime('timeout = "100ms"').add(slow)
    with pytest.raises(PluginTimeout):
        node.create_container()


def test_a_changed_policy_file_applies_to_connected_plugins(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("")
    with FakeRuntime(policy="") as node:
        adaptation = node.adaptation
        node.add(Inject())
        assert node.create_container().env == {"A": "1"}
        with open(parts_of(adaptation).policies.path, "w") as file:
            file.write('["10-inject"]\nshadow = true\n')
        wait_for(lambda: node.create_container().env == {}, "the new policy holds")


class Leisurely(Inject):
    """Takes its time to be configured and to look at the state."""

    name = "inject"

    def configure(self):
        time.sleep(0.06)

    def synchronize(self, pods, containers):
        time.sleep(0.06)


def test_a_short_request_timeout_does_not_exclude_a_plugin_that_starts_slowly(runtime):
    node = runtime('timeout = { default = "50ms", CreateContainer = "20s" }').add(Leisurely())
    assert node.create_container().env == {"A": "1"}
