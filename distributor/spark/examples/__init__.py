"""Jobs to begin from; `make demo KEEP=1` publishes the flights and the weather they read."""
