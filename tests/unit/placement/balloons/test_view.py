"""balloons' explanations and measurements."""

from __future__ import annotations

from nri.placement import masks
from nri.placement.balloons.policy import Balloons
from tests.support.placement import balloons, container


def account(policy: Balloons, name: str) -> dict[str, tuple[str, str]]:
    """Of each balloon that was looked at, what decided against it, and what would change that."""
    return {candidate.place: (candidate.lost, candidate.change) for candidate in policy.explain(name).candidates}


def test_every_other_balloon_of_the_type_has_the_reason_against_it() -> None:
    policy = balloons({"name": "own", "namespaces": ["*"], "maxCPUs": 3, "preferSpreadingPods": True})
    for name, cpu_m in (("a", 3000), ("b", 2500), ("c", 1000), ("d", 500)):
        policy.create(container(name, cpu_m))
    assert policy.explain("d").place == "own[1]"
    candidates = account(policy, "d")
    assert candidates["own[1]"] == ("", "")
    assert candidates["own[0]"] == ("enough CPU", "500m more free CPU, or a smaller request")
    assert candidates["own[2]"][0] == "fit is tried first"
    assert candidates["any default"][1] == "annotation balloon.balloons.resource-policy.nri.io: default"


def test_of_several_balloons_the_one_with_most_free_cpu_wins() -> None:
    policy = balloons({"name": "own", "namespaces": ["*"], "minCPUs": 2, "minBalloons": 2})
    policy.create(container("a", 500))
    policy.create(container("b", 100))
    assert policy.explain("b").place == "own[1]"
    assert account(policy, "b")["own[0]"] == (
        "fit: less free CPU, or more containers",
        "more than 2000m free CPU, or as much and fewer than 0 containers",
    )


def test_the_reason_for_the_type_is_in_the_request() -> None:
    by_name = {"key": "name", "operator": "Equals", "values": ["named"]}
    policy = balloons({"name": "own", "namespaces": ["shop"], "matchExpressions": [by_name]})
    reasons = {}
    for row in (
        container("annotated", 500, **{"balloon.balloons": "own"}),
        container("named", 500),
        container("shop", 500, namespace="shop"),
        container("other", 500),
        container("left", 500, **{"cpu.preserve": "true"}),
    ):
        policy.create(row)
        reasons[row.id] = policy.explain(row.id).request
    assert reasons == {
        "annotated": "Guaranteed, 500m CPU, type own: named by its annotation",
        "named": "Guaranteed, 500m CPU, type own: first type with a matching matchExpression",
        "shop": "Guaranteed, 500m CPU, type own: first type whose namespaces contain shop",
        "other": "Guaranteed, 500m CPU, type default: no other type matches",
        "left": "Guaranteed, not placed, as configured",
    }


def test_a_restored_container_has_its_balloon_without_a_comparison() -> None:
    policy = balloons({"name": "own", "namespaces": ["*"]})
    policy.create(container("a", 2000))
    restored = Balloons(policy.machine, policy.options, state=policy.saved(), containers=policy.containers)
    explanation = restored.explain("a")
    assert (explanation.place, explanation.then) == ("own[0]", False)
    assert explanation.candidates[0].has == "placed before this policy started"


def test_the_metric_of_a_balloon_has_the_labels_of_nri_plugins() -> None:
    policy = balloons({"name": "own", "namespaces": ["*"], "maxCPUs": 4, "shareIdleCPUsInSame": "numa"})
    policy.create(container("a", 2000))
    policy.create(container("b", 500, pod="a"))
    actual = {gauge.labels["balloon"]: gauge for gauge in policy.gauges()}
    measurement = actual["own[0]"]
    assert (measurement.name, measurement.value) == ("nri_policy_balloons_cores", 3)
    assert set(measurement.labels) == {
        "balloon_type", "cpu_class", "cpus_min", "cpus_max", "balloon", "groups", "cpus", "cpus_count", "numas",
        "numas_count", "dies", "dies_count", "packages", "packages_count", "sharedidlecpus", "sharedidlecpus_count",
        "cpus_allowed", "cpus_allowed_count", "mems", "containers", "tot_req_millicpu",
    }  # fmt: skip
    assert measurement.labels["containers"] == "default/a/a,default/a/b"
    assert (
        measurement.labels["tot_req_millicpu"],
        measurement.labels["cpus_count"],
        measurement.labels["cpus_max"],
    ) == (
        "2500",
        "3",
        "4",
    )
    assert (measurement.labels["packages"], measurement.labels["dies"], measurement.labels["numas"]) == (
        "p0",
        "p0d0",
        "p0d0n0",
    )
    assert (measurement.labels["mems"], measurement.labels["packages_count"]) == ("0", "1")


def test_a_composite_zone_lists_component_cpus_and_their_class_is_tuned() -> None:
    components = [{"balloonType": "pair"}, {"balloonType": "fast"}]
    policy = balloons(
        {"name": "all", "components": components},
        {"name": "pair", "components": [{"balloonType": "fast"}, {"balloonType": "fast"}]},
        {"name": "fast", "cpuClass": "turbo"},
    )
    policy.create(container("a", 4000, **{"balloon.balloons": "all"}))
    composite = policy.balloons[-1]
    zone = next(zone for zone in policy.node_zones() if zone["name"] == str(composite))
    (first, second), single = composite.components[0].components, composite.components[1]
    a, b, c = (masks.text(part.cpus) for part in (first, second, single))
    attributes = {attribute["name"]: attribute["value"] for attribute in zone["attributes"]}
    assert attributes["component cpusets"] == f"{{{{{{{a}}}, {{{b}}}}}, {{{c}}}}}"
    assert policy.tuning().classes["turbo"] == first.cpus | second.cpus | single.cpus == composite.cpus
