"""Choosing active rows, or inducing inputs."""
