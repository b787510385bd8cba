"""A benchmark of deep-learning training that scales like LINPACK: where HPL grows a matrix, trainmark grows an ensemble."""

__version__ = "0.1.0"
