"""What a user gets who gives nothing but data."""
