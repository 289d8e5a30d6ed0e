"""Many drafters and settings, each a run of the gate on a free slot."""
