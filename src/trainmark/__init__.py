"""A benchmark of deep-learning training that scales like LINPACK: it grows an ensemble."""

__version__ = "0.1.0"
