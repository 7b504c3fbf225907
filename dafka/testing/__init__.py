"""The seeded simulator and what tests share: the real machines in a world made of one random seed.

Shipped, because whoever builds on the machines wants to test the same way.
"""
