"""Two jobs to begin from; `make demo KEEP=1` publishes the flights they read."""
