"""Communication modes and wire formats of gradients. Registered in spec/registries.py."""
