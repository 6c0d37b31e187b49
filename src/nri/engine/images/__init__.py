"""Images and root file systems: pulled by skopeo, unpacked by umoci, mounted for each container.

Every image in the store is complete: a pull works in its own folder, which is renamed at the end.
"""

from nri.engine.images.image import Image
from nri.engine.images.reference import Reference, parse_reference
from nri.engine.images.registries import Credentials, Registry
from nri.engine.images.snapshots import Snapshots
from nri.engine.images.store import ImageStore
from nri.engine.images.transport import Progress, Transport

__all__ = [
    "Credentials",
    "Image",
    "ImageStore",
    "Progress",
    "Reference",
    "Registry",
    "Snapshots",
    "Transport",
    "parse_reference",
]
