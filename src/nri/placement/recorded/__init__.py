"""Recorded placements of nri-plugins' topology-aware and balloons, played through ours.

Read `machines` (what the cases run on), `sequences` (pods that come and go), `cases` (a file, and what came of it).
"""
