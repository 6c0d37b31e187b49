"""Variables of containers: fields of the pod, resources, references to other variables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.errors import ConfigError
from nri.kube.manifest import Workload
from tests.unit.kube.conftest import pod

Read = Callable[..., Workload]


def container(read: Read, text: str, spec: str = "") -> tuple[dict[str, str], list[str], list[str]]:
    workload = read(
        pod(f"{{{spec}containers: [{{name: app, {text}}}]}}", "{name: web, namespace: shop, labels: {tier: gold}}")
    )
    message = workload.containers[0]
    env = dict(one.split("=", 1) for one in message.env)
    env.pop("PATH")
    return env, list(message.args), workload.notes


def field(name: str, path: str) -> str:
    return f'{{name: {name}, valueFrom: {{fieldRef: {{fieldPath: "{path}"}}}}}}'


def resource(name: str, path: str, more: str = "") -> str:
    return f"{{name: {name}, valueFrom: {{resourceFieldRef: {{resource: {path}{more}}}}}}}"


def test_fields_of_the_pod_are_filled_in_and_fields_of_the_node_reported(read: Read) -> None:
    paths = {
        "NAME": "metadata.name", "SPACE": "metadata.namespace", "TIER": "metadata.labels['tier']",
        "NOTE": "metadata.annotations['none']", "ACCOUNT": "spec.serviceAccountName", "NODE": "spec.nodeName",
        "IP": "status.podIP",
    }  # fmt: skip
    variables = ", ".join(field(name, path) for name, path in paths.items())
    env, _, notes = container(read, f"env: [{variables}]", "serviceAccountName: robot, ")
    assert env == {
        "NAME": "web", "SPACE": "shop", "TIER": "gold", "NOTE": "", "ACCOUNT": "robot", "NODE": "", "IP": "",
    }  # fmt: skip
    assert notes == [
        "container app: the value of NODE (spec.nodeName) requires a cluster: left empty",
        "container app: the value of IP (status.podIP) requires a cluster: left empty",
    ]
    assert container(read, f"env: [{field('NODE', 'spec.nodeName')}]", "nodeName: box, ")[0] == {"NODE": "box"}


def test_references_are_replaced_in_values_and_the_command_line(read: Read) -> None:
    variables = f"{field('NAME', 'metadata.name')}, {{name: B, value: '$(NAME)-$(LATER)-$$(NAME)'}}, {{name: LATER}}"
    env, args, _ = container(read, f"command: [run, $(B)], args: ['$(NONE) $$ $(LATER)'], env: [{variables}]")
    assert env == {"NAME": "web", "B": "web-$(LATER)-$(NAME)", "LATER": ""}
    assert args == ["run", "web-$(LATER)-$(NAME)", "$(NONE) $ "]


def test_resources_are_rounded_up_to_units_of_the_divisor(read: Read) -> None:
    variables = ", ".join(
        [
            resource("CPUS", "limits.cpu"),
            resource("MILLI", "limits.cpu", ", divisor: 1m"),
            resource("MEMORY", "requests.memory", ", divisor: 1Mi"),
            resource("PAGES", "limits.hugepages-2Mi"),
            resource("DISK", "requests.ephemeral-storage"),
            resource("ROOM", "limits.memory"),
        ]
    )
    resources = "resources: {limits: {cpu: 1500m}, requests: {memory: 100M}}"
    env, _, notes = container(read, f"env: [{variables}], {resources}")
    assert env == {"CPUS": "2", "MILLI": "1500", "MEMORY": "96", "PAGES": "0", "DISK": "0", "ROOM": ""}
    assert notes == ["container app: the value of ROOM (resourceFieldRef) requires a cluster: left empty"]


@pytest.mark.parametrize(
    ("variable", "error"),
    [
        (resource("A", "limits.gpu"), 'unknown resource "limits.gpu"'),
        (resource("A", "limits.cpu", ", containerName: other"), 'unknown container "other"'),
        (field("A", "status.phase"), 'unknown field "status.phase"'),
        ("{name: A, valueFrom: {}}", 'unknown field ""'),
    ],
)
def test_a_source_that_kubernetes_refuses_is_an_error(read: Read, variable: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        container(read, f"env: [{variable}]")
