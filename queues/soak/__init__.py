"""A soak: one Tidegate of real processes under load, faults and kills; at the end all that it knows must agree."""
