"""Names have one holder, and ids are found by prefix."""

import pytest

from nri.engine.state.names import Ids, Names, container_name, new_id, pod_name
from nri.engine.support.errors import AlreadyExists, InvalidRequest, NotFound


def test_a_name_has_one_holder_until_it_is_released() -> None:
    names = Names("pod")
    names.reserve("web", "1")
    names.reserve("web", "1")
    with pytest.raises(AlreadyExists, match="'web' is already used by pod 1"):
        names.reserve("web", "2")
    names.release("1")
    names.reserve("web", "2")
    assert names.holder("web") == "2"


def test_an_id_is_found_by_a_unique_prefix() -> None:
    ids = Ids("container")
    for identity in ("abc1", "abd2", "abc"):
        ids.add(identity)
    assert ids.resolve("abd") == "abd2"
    assert ids.resolve("abc") == "abc"  # one that is whole is not the beginning of another
    with pytest.raises(InvalidRequest, match="matches 3 containers"):
        ids.resolve("ab")
    ids.discard("abd2")
    for prefix in ("abd", "", "x"):
        with pytest.raises(NotFound):
            ids.resolve(prefix)


def test_names_and_ids_have_the_usual_form() -> None:
    assert len(new_id()) == 64 and new_id() != new_id()
    assert container_name("app", 2, pod_name("web", "shop", "uid", 1)) == "app_web_shop_uid_1_2"
