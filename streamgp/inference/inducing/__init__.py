"""Inference over all rows, seen through inducing inputs: pure steps on blocks of rows and their sums."""
