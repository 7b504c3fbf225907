"""ZeroMQ: `zmq` is imported here and nowhere else."""
