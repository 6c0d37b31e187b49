"""`ValidationRequest`: the request to validators, with access to the owners of fields."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.api import messages as m


class ValidationRequest:
    """A container with the adjustments of all plugins, for validators.

    `nri.Adjustment.of(request.adjust)` has readers of the adjustments.

    Args:
        message: the `ValidateContainerAdjustmentRequest`, which is not copied.

    Attributes:
        message: the request message.
    """

    __slots__ = ("message",)

    def __init__(self, message: m.ValidateContainerAdjustmentRequest) -> None:
        self.message = message

    @property
    def pod(self) -> m.PodSandbox:
        """The pod of the container."""
        return self.message.pod

    @property
    def container(self) -> m.Container:
        """The container as the runtime requested it, before any adjustment."""
        return self.message.container

    @property
    def adjust(self) -> m.ContainerAdjustment:
        """The adjustments of all plugins, merged."""
        return self.message.adjust

    @property
    def update(self) -> Sequence[m.ContainerUpdate]:
        """The updates of other containers by all plugins."""
        return self.message.update

    @property
    def owners(self) -> m.OwningPlugins:
        """The owners of fields, as the runtime sends them."""
        return self.message.owners

    @property
    def plugins(self) -> Sequence[m.PluginInstance]:
        """The plugins that took part in the event."""
        return self.message.plugins

    def owner(self, field: str | int, key: str | None = None, container_id: str = "") -> str | None:
        """The plugin (``NN-name``) that set a field of the container, or an entry of the field. None if unset.

        A leading `-` means that the plugin removed it. Hooks may have several owners, joined by commas.

        Args:
            field: name or number of the field in the enum `Field`: `CPUShares`, `Env`, `Mounts`, ...
            key: the entry, for fields with several entries: a variable's name, the path of a mount.
            container_id: another container, which was updated in the same event.

        Raises:
            ValueError: the field is unknown.
        """
        from nri.api import owners  # noqa: PLC0415 - a validator that looks nothing up does not pay for it

        return owners.owner(self.message.owners, container_id or self.message.container.id, field, key)

    def __eq__(self, other: object) -> bool:
        return bool(self.message == other.message) if isinstance(other, ValidationRequest) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a message can change

    def __repr__(self) -> str:
        pod, container = self.message.pod, self.message.container
        return f"ValidationRequest(pod={pod.namespace}/{pod.name}, container={container.name})"
