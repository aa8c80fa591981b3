"""Template tags that every page may use."""
