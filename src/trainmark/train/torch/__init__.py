"""The torch engine: models, precision, parallel modes, communication and checkpoints in PyTorch."""
