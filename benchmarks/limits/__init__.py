"""How near streamgp comes to what the machine itself can do."""
