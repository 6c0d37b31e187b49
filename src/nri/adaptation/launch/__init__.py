"""The plugins that are installed on this machine: found, started, watched, started again, ended."""
