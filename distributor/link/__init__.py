"""One link, pure: what it copies, what it pulls, and where it aims. See `LinkMachine` and `Aim`."""
