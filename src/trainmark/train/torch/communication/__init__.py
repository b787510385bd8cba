"""How workers join their gradients: modes and number formats of the wire. Named in spec/registries.py."""
