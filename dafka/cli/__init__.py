"""The `dafka` command: one cluster from the shell."""
