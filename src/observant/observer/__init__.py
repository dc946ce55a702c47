"""Visit the real sources: transport, comparing, the loop."""
