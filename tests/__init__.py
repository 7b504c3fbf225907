"""The tests, as a package: what they share is imported as `tests.support`."""
