"""Test how a live runtime or a plugin behaves with NRI, and run recorded cases of the Go programs again."""
