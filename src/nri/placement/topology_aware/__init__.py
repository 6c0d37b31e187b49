"""topology-aware: a tree of pools as the machine is built, and each container in the pool that fits it best.

Read `requests` (what a container wants), `pools` (what there is), `scoring` (which pool is better, and why), `policy`.
"""
