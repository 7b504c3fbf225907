"""The roles of RFC 46 as machines, each of the shape of `dafka.protocol.machine.Machine`."""
