"""The hooks, one file each: context and rule in, a decision out; `nri.policies.koordinator.profile` lists them."""
