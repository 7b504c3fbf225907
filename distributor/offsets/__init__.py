"""Positions of groups on their way to other clusters."""
