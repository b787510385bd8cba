"""The optimizers, each built from (parameters, settings). Registered in spec/registries.py."""
