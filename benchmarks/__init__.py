"""How fast it is, against baselines measured in the same run: `make bench`."""
