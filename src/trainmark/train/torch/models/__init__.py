"""The models, one module per family; written here because they are the benchmark."""
