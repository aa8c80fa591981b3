"""A virtual clock around the admission rules: scenario files and what must be true in them."""
