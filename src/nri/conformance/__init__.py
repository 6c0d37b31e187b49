"""Test how a live runtime or a plugin behaves with NRI, and replay recorded results of the reference."""
