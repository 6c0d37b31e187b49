"""A missing attribute in a handler is an error with a suggestion, also in the runtime's error."""

from __future__ import annotations

import pytest

import nri
from nri.testing import FakeRuntime, make_container, make_pod


class Config:
    limit: int = 1


class Odd:
    def __dir__(self) -> list[str]:
        raise OSError("no list")


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (lambda plugin, _: plugin.config.limitt, "; did you mean limit?"),
        (lambda _, container: container.anotations, "Error: Container has no anotations; did you mean annotations?"),
        (lambda _, container: container.far, "AttributeError: Container has no far"),
        (lambda *_: nri.Adjustment().add_envs("A", "b"), "Adjustment has no add_envs: did you mean add_env()?"),
        (lambda *_: nri.Adjustment().linux, "Adjustment has no linux: help(Adjustment) lists its methods"),
        (lambda _, container: container.linux.resources.memory.limitt, "; did you mean limit?"),
        (lambda _, container: container.memory_limit, "; read it with nri.resources_of(...).memory_limit"),
        (lambda _, container: container.linux.resources.unifed, "; did you mean unified?"),
        (lambda _, container: container.linux.resources.cpu_shares, "; read it with nri.resources_of(...).cpu_shares"),
    ],
)
def test_a_missing_attribute_is_an_error_with_the_nearest_name(look, text: str) -> None:
    class Looks(nri.Plugin):
        Config = Config

        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            look(self, container)

    with FakeRuntime() as runtime:
        runtime.add(Looks())
        with pytest.raises(nri.PluginError, match=r"AttributeError: ") as caught:
            runtime.create_container(make_pod(), make_container())
    assert str(caught.value).endswith(text)


AWAIT = "; add await before the call of the async function"


@pytest.mark.parametrize(
    "use",
    [
        lambda value: nri.Adjustment().add_env("A", value),
        lambda value: value.name,
        lambda value: value["name"],
        lambda value: value,
    ],
)
def test_a_forgotten_await_is_reported(use) -> None:
    async def look() -> str:
        return "a"

    class Forgets(nri.Plugin):
        async def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            value = look()
            try:
                return use(value)
            finally:
                value.close()

    with FakeRuntime() as runtime:
        runtime.add(Forgets())
        with pytest.raises(nri.PluginError) as caught:
            runtime.create_container(make_pod(), make_container())
    assert str(caught.value).endswith(AWAIT)


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("words alone"),
        AttributeError("far", name="far", obj=Config()),
        AttributeError("x", name="x", obj=Odd()),
    ],
)
def test_without_a_near_name_the_error_is_unchanged(error: AttributeError) -> None:
    class Raises(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            raise error

    with FakeRuntime() as runtime:
        runtime.add(Raises())
        with pytest.raises(nri.PluginError) as caught:
            runtime.create_container(make_pod(), make_container())
    assert str(caught.value).endswith(f"AttributeError: {error}")


def test_reading_a_configuration_key_without_a_config_class_is_an_error_with_advice() -> None:
    class Limits(nri.Plugin):
        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            return nri.Adjustment().set_memory_limit(self.config.limit)

    with FakeRuntime() as runtime:
        runtime.add(Limits())
        with pytest.raises(nri.PluginError, match="is a string unless the plugin has a class Config with this"):
            runtime.create_container(make_pod(), make_container())
