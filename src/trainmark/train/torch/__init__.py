"""The torch engine: models, precisions, optimizers, parallel and communication modes in PyTorch."""
