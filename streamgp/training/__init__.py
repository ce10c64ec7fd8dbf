"""The loops: from a store to a model."""
