"""Dense, slow, obvious versions of the mathematics: the oracles of the tests."""
