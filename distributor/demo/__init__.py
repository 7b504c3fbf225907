"""`distributor demo`: the main job, end to end, on this machine with real data."""
