"""What the active set then says about all rows."""
