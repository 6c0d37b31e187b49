"""Images and root file systems: pulled by skopeo, unpacked by umoci, mounted for each container.

Knows no pod and no CRI message. Every image in the store is whole: a pull works in a folder of its own that
is renamed at the end, and what a kill left is removed at the next start.
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
