"""Gaussian-process classification and regression on data larger than memory."""
