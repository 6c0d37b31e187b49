"""Koordinator's profile: what koordlet does on a node, one file per feature; `profile` has the rows."""
