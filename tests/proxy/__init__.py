"""The CRI proxy as a process, in front of real runtimes whose own NRI is switched off."""
