"""What drives running distributors: controllers and replicas, and what operators ask of both.

docs/control-protocol.md has how they speak; `protocol` and `client` are what distributors without
controllers are told on a socket of their own.
"""

import os

# Before anything here imports gRPC: its handlers of fork() run in a child that only becomes another
# program, find their descriptors closed, and abort it: one of a hundred children of a supervisor.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
