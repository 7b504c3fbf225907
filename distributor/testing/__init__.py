"""Whole topologies in the seeded simulator: the real machines, faults, and the judgements."""
