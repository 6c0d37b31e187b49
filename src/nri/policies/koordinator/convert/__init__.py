"""Contexts from what a transport knows of pods and containers, and changes in the words that it understands; pure."""
