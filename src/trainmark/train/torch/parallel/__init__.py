"""How a member's workers share its model and data, one file each. Named in spec/registries.py."""
