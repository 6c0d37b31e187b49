"""Annotations that could be read once."""

from nri.agent.pods.last_good import LastGoodAnnotations


def test_a_text_counts_until_the_annotation_or_the_pod_is_gone() -> None:
    good = LastGoodAnnotations()
    assert good.instead("u", "a", {"a": "{"}) is None
    good.keep("u", "a", {"a": "{}", "b": "1"})
    assert good.instead("u", "a", {"a": "{", "b": "2"}) == {"a": "{}", "b": "2"}
    assert good.instead("u", "b", {"b": "{"}) is None
    good.keep("other", "a", {"a": "{}"})
    good.only({"u"})
    assert len(good) == 1
    good.keep("u", "a", {})
    assert len(good) == 0
