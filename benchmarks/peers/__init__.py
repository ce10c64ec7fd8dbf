"""The default and its rivals on the same data."""
