"""The precisions of training arithmetic. Registered in spec/registries.py."""
