"""The processes of a topology on this machine."""
