"""The demo: who and what there is, and what they submit. Nothing of the product depends on it."""
