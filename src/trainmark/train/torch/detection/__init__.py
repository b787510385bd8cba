"""The parts of a two-stage detector: box arithmetic, anchors, matching, sampling, pooling and layers."""
