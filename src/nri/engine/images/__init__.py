"""Images and root file systems. skopeo pulls images, umoci unpacks them, and each container mounts its image.

Every image in the store is complete, because a pull writes to a temporary folder, which is renamed at the end.
"""

from nri.engine.images.credentials import Credentials
from nri.engine.images.image import Image
from nri.engine.images.reference import Reference, parse_reference
from nri.engine.images.registry_rules import RegistryRules
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.store import ImageStore
from nri.engine.images.transport import Progress, Transport

__all__ = [
    "Credentials",
    "Image",
    "ImageStore",
    "Progress",
    "Reference",
    "RegistryRules",
    "Snapshots",
    "Transport",
    "parse_reference",
]
