"""The rules of admission: plain Python on frozen values."""
