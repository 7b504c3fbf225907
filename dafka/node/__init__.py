"""Machines on real sockets: one thread per node, one poller, bounded queues."""
