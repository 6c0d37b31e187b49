"""Mistakes in handlers: changed requests, forgotten answers, wrong fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.stub.support.handler_mistakes import checked_handler
from nri.testing import FakeRuntime, make_container, make_pod

PAIR = ("pod", "container")


def _labels(pod, container):
    return nri.Adjustment().add_env("TIER", pod.labels["tier"])


def _env(pod, container):
    container.env.append("A=1")


def _limit(pod, container):
    container.linux.resources.memory.limit.value = 5


def _cpus(pod, container):
    container.linux.resources.cpu.cpus = "0"


def _name(pod, container):
    container.name = "other"


def _devices(pod, container):
    container.linux.devices[0].major = 7


def _drop(pod, container):
    del container.annotations["a"]


@pytest.mark.parametrize(
    ("handler", "method", "field", "advice"),
    [
        (_labels, "create_container", "reads pod.labels['tier'], which does not exist", "write pod.labels.get('tier')"),
        (_env, "create_container", "changes container.env", "return an nri.Adjustment with add_env()"),
        (_devices, "create_container", "container.linux.devices", "return an nri.Adjustment with add_device()"),
        (_limit, "create_container", "linux.resources.memory.limit.value", "nri.Adjustment with set_memory_limit()"),
        (_cpus, "update_container", "linux.resources.cpu.cpus", "return an nri.Update with set_cpuset_cpus()"),
        (_name, "create_container", "container.name", "return an nri.Adjustment with the change"),
        (_drop, "create_container", "container.annotations['a']", "an nri.Adjustment with add_annotation()"),
        (_env, "start_container", "container.env", "change containers with the Adjustment that"),
    ],
)  # fmt: skip
def test_a_changed_request_is_an_error_with_field_handler_and_advice(
    handler, method: str, field: str, advice: str
) -> None:
    container = make_container(annotations={"a": "1"})
    container.linux.devices.add(path="/dev/a", major=1)
    with pytest.raises(nri.NriError) as caught:
        checked_handler(handler, method, PAIR)(make_pod(), container)
    text = str(caught.value)
    assert text.startswith(f"{handler.__name__} (test_handler_mistakes.py:{handler.__code__.co_firstlineno}) ")
    assert (field in text, advice in text) == (True, True), text


def test_a_handler_that_only_reads_is_accepted() -> None:
    def reads(pod, container):
        requested = container.linux.resources.memory.limit.value, pod.labels.get("a"), list(container.env)
        return nri.Adjustment().add_env("A", str(requested))

    assert checked_handler(reads, "create_container", PAIR)(make_pod(), make_container()).env


def test_an_exception_of_a_handler_gets_a_note() -> None:
    def fails(pod, container):
        return nri.Adjustment().set_cpuset_cpus(pod.labels["cpus"])

    with pytest.raises(ValueError, match="cpus") as caught:
        checked_handler(fails, "create_container", PAIR)(make_pod(), make_container())
    assert "write pod.labels.get('cpus')" in caught.value.__notes__[0]


def _forgets(pod, container):
    adjustment = nri.Adjustment()
    if pod.labels:
        return
    adjustment.add_env("A", "1")


def _answers_later(pod, container):
    def adjustment():
        return nri.Adjustment()

    if pod.labels.get("tier"):
        return adjustment()
    return None


def _exits(pod, container):
    raise SystemExit(3)


def _misnames(pod, container):
    return nri.Adjustment().add_env("A", pod.label["tier"])


def test_an_adjustment_that_is_not_returned_is_an_error_with_the_handler() -> None:
    with pytest.raises(
        nri.NriError, match=r"_forgets \(test_handler_mistakes.py:\d+\) creates an Adjustment, but returns nothing"
    ):
        checked_handler(_forgets, "create_container", PAIR)(make_pod(), make_container())
    labelled = make_pod(labels={"tier": "web"})
    assert checked_handler(_forgets, "create_container", PAIR)(labelled, make_container()) is None  # it is empty
    assert checked_handler(_answers_later, "create_container", PAIR)(make_pod(), make_container()) is None


class Forgets(nri.Plugin):
    def __init__(self) -> None:
        self.stored: list[Any] = []

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> Any:
        return getattr(self, f"_{pod.name}")(container)

    def _conditional(self, container: nri.Container) -> nri.Adjustment | None:
        adjustment = nri.Adjustment().add_env("A", "b")
        return adjustment if container.name == "never" else None

    def _helper(self, container: nri.Container) -> None:
        def build(kind: Any) -> nri.Adjustment:
            return kind().add_env("A", "b")

        build(nri.Adjustment)

    def _replaced(self, container: nri.Container) -> nri.Adjustment:
        for name in ("A", "B"):
            adjustment = nri.Adjustment().add_env(name, "b")
        return adjustment

    def _other(self, container: nri.Container) -> None:
        nri.Update("other").set_cpu_shares(512)

    def _others(self, container: nri.Container) -> None:
        [nri.Update(name).set_cpu_shares(512) for name in ("one", "two")]

    def _eviction(self, container: nri.Container) -> None:
        nri.Eviction("other")

    def _last(self, container: nri.Container) -> nri.Update:
        for name in ("one", "two"):
            update = nri.Update(name).set_cpu_shares(512)
        return update

    def _message(self, container: nri.Container) -> Any:
        return nri.Adjustment().add_env("A", "b").message

    def _copied(self, container: nri.Container) -> Any:
        return nri.Adjustment().add_env("A", "b").copy()

    def _pair(self, container: nri.Container) -> Any:
        return nri.Adjustment().add_env("A", "b"), [nri.Update("other").set_cpu_shares(512)]

    def _requested(self, container: nri.Container) -> None:
        self.runtime.update(nri.Update("other").set_cpu_shares(512))

    def _later(self, container: nri.Container) -> None:
        self.stored.append(nri.Update("other").set_cpu_shares(512))

    def _unfilled(self, container: nri.Container) -> None:
        nri.Update("other")


class ForgetsLater(Forgets):
    async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> Any:
        await asyncio.sleep(0)
        return getattr(self, f"_{pod.name}")(container)


@pytest.mark.parametrize("plugin", [Forgets, ForgetsLater])
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("conditional", "creates an Adjustment, but returns nothing: return it"),
        ("helper", "creates an Adjustment, but returns nothing: return it"),
        ("other", "creates an Update, but returns nothing: return it"),
        ("others", "creates 2 answers, the first an Update, but returns nothing: return them in one list"),
        ("eviction", "creates an Eviction, but returns nothing: return it"),
    ],
)
def test_each_form_of_a_forgotten_return_is_an_error(plugin: type[Forgets], form: str, text: str) -> None:
    with FakeRuntime() as runtime:
        runtime.add(plugin())
        with pytest.raises(nri.PluginError, match=text):
            runtime.create_container(make_pod(form))


@pytest.mark.parametrize("plugin", [Forgets, ForgetsLater])
@pytest.mark.parametrize("form", ["message", "copied", "pair", "requested", "later", "unfilled", "replaced", "last"])
def test_an_answer_that_is_used_is_accepted(plugin: type[Forgets], form: str) -> None:
    with FakeRuntime() as runtime:
        runtime.add(plugin())
        runtime.create_container(make_pod(form))


def test_updates_that_synchronize_creates_and_does_not_return_are_an_error() -> None:
    class Synchronizes(nri.Plugin):
        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            [nri.Update(container).set_cpu_shares(512) for container in containers]

    pod = make_pod()
    with (
        FakeRuntime(pods=[pod], containers=[make_container("one", pod)]) as runtime,
        pytest.raises(nri.NriError, match="creates an Update, but returns nothing: return it"),
    ):
        runtime.add(Synchronizes())


def test_a_return_value_of_an_event_without_answers_is_an_error_with_advice() -> None:
    class Starts(nri.Plugin):
        def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            nri.Update(container).set_cpu_shares(512)

    with FakeRuntime() as runtime:
        runtime.add(Starts())
        with pytest.raises(
            nri.PluginError, match=r"creates an Update, which has no effect: request it with self\.runtime"
        ):
            runtime.start_container()


def test_an_adjustment_that_grows_over_several_containers_is_an_error() -> None:
    shared = nri.Adjustment().add_env("A", "1")
    same = checked_handler(lambda pod, container: shared, "create_container", PAIR)
    assert same(make_pod(), make_container()) is same(make_pod(), make_container()) is shared
    grows = checked_handler(lambda pod, container: (shared.add_env(container.name, "1"), []), "create_container", PAIR)
    grows(make_pod(), make_container(name="one"))
    with pytest.raises(nri.NriError, match=r"the Adjustment of the previous container again.*create a new"):
        grows(make_pod(), make_container(name="two"))


def test_sys_exit_in_a_handler_is_an_error_with_the_code() -> None:
    with pytest.raises(nri.NriError, match=r"_exits .* calls sys.exit\(3\), which ends the plugin"):
        checked_handler(_exits, "create_container", PAIR)(make_pod(), make_container())


def test_an_unknown_field_gets_a_note_with_the_nearest_name() -> None:
    with pytest.raises(AttributeError) as caught:
        checked_handler(_misnames, "create_container", PAIR)(make_pod(), make_container())
    assert caught.value.__notes__ == ["the message has no field label; did you mean labels?"]


class Slip(nri.Plugin):
    async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        await asyncio.sleep(0)
        container.args.append("-v")

    @nri.when(namespaces="prod")
    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        pod.labels["seen"] = "1"

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        request.adjust.env.add(key="A")


def test_nri_testing_fails_the_request_of_a_mistake(nri_runtime: FakeRuntime) -> None:
    nri_runtime.add(Slip())
    nri_runtime.run_pod_sandbox(make_pod(namespace="dev"))
    with pytest.raises(nri.PluginError, match=r"Slip.run_pod_sandbox .* changes pod.labels\['seen'\]"):
        nri_runtime.run_pod_sandbox(make_pod(namespace="prod"))
    with pytest.raises(nri.PluginError, match=r"Slip.create_container .* changes container.args .* set_args\(\)"):
        nri_runtime.create_container()


def test_mistakes_of_validators_and_synchronize_are_errors() -> None:
    class Both(nri.Plugin):
        def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
            containers[1].linux.resources.cpu.shares.value = 5

    with pytest.raises(nri.NriError, match=r"changes containers\[1\].linux.* an nri.Update with set_cpu_shares\(\)"):
        checked_handler(Both().synchronize, "synchronize", ("pods", "containers"))(
            [], [make_container(), make_container()]
        )
    request = nri.ValidationRequest(m.ValidateContainerAdjustmentRequest())
    with pytest.raises(nri.NriError, match=r"changes request.adjust.env of the request's message"):
        checked_handler(Slip().validate_container_adjustment, "validate_container_adjustment", ("request",))(request)


def test_answers_merged_into_the_returned_answer_are_accepted() -> None:
    class Merges(nri.Plugin):
        def create_container(self, pod, container):
            answer = nri.Adjustment()
            for name in ("A", "B"):
                answer.message.MergeFrom(nri.Adjustment().add_env(name, "1").message)
            return answer

    with FakeRuntime() as runtime:
        runtime.add(Merges())
        assert runtime.create_container().env == {"A": "1", "B": "1"}
