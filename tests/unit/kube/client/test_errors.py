"""The error of an apiserver."""

import pytest

from nri.kube.client.errors import ApiserverError


@pytest.mark.parametrize(("status", "hint"), [(401, "token"), (403, "rbac.yaml"), (404, "CustomResourceDefinition")])
def test_it_says_what_to_do(status: int, hint: str) -> None:
    error = ApiserverError("list pods", status, "no\nway")
    assert str(error).startswith("cannot list pods: no\\nway (")
    assert hint in str(error)


def test_versions_that_are_gone_or_to_come_are_expired() -> None:
    assert ApiserverError("x", 410, "too old").expired
    assert ApiserverError("x", 504, "Too large resource version: 99, current: 3").expired
    assert not ApiserverError("x", 504, "busy").expired
