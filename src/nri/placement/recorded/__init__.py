"""Replay recorded placements of nri-plugins' topology-aware and balloons with our policies."""
