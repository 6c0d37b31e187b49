"""The operator's `policy.toml`, enforced by a validator on runtimes that do not read the file themselves."""
