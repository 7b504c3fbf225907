"""Comparing what clusters hold, pure: who has which records, and where they are not the same."""
