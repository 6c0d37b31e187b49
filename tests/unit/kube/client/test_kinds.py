"""Where kinds are in the API."""

from nri.kube.client.kinds import NODE_SLOS, PODS


def test_paths_of_the_core_and_of_groups() -> None:
    assert PODS.path == "api/v1/pods"
    assert NODE_SLOS.path == "apis/slo.koordinator.sh/v1alpha1/nodeslos"
    assert PODS.in_namespace("ns", "a", "eviction") == "api/v1/namespaces/ns/pods/a/eviction"


def test_a_name_cannot_leave_its_place() -> None:
    assert PODS.in_namespace("..", "../../x?y#z") == "api/v1/namespaces/../pods/..%2F..%2Fx%3Fy%23z"


def test_a_kind_is_named_as_kubectl_names_it() -> None:
    assert (str(PODS), str(NODE_SLOS)) == ("pods", "nodeslos.slo.koordinator.sh")
