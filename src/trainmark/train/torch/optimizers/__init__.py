"""The optimizers, one file each: `build(parameters, settings)`. Named in spec/registries.py."""
