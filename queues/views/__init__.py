"""The portal's pages: each view reads rows, hands them to a template, and posts through services."""
