"""The `distributor` command: links, and whole topologies, from the shell."""
