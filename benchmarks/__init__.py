"""Measurements: each script prints ratios measured in one run and appends them to ``results/``."""
