"""Two results of the gate: what differs, what changed, and which difference explains it."""
