"""What a detector of boxes is made of: box arithmetic, anchors, matching, sampling, pooling and its layers."""
