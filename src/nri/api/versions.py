"""The earlier name of `nri.versions`, which scripts of users import."""

from nri.versions import infer_nri_version, parse_version, version_at_least

__all__ = ["infer_nri_version", "parse_version", "version_at_least"]
