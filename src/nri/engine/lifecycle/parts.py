"""The objects of an engine that all its calls use."""

from __future__ import annotations

from typing import NamedTuple

from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.inventory import Inventory
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.resources import Resources


class Parts(NamedTuple):
    """The objects of an engine that all its calls use.

    Attributes:
        inventory: the pods and containers.
        machinery: OCI runtimes, conmon, images, networks, and the machine's features.
        processes: starts and ends processes; calls no plugin.
        resources: changes the resources of containers; calls no plugin.
        domain: calls plugins.
        exit_handler: records each end of a container once, and reports it to plugins once.
        events: publishes the CRI's container events.
    """

    inventory: Inventory
    machinery: Machinery
    processes: Processes
    resources: Resources
    domain: Domain
    exit_handler: ExitHandler
    events: EventBus
