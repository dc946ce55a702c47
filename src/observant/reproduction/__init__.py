"""What did the papers find? Their tables and figures, rebuilt."""
