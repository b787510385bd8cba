"""FLOPs of a model, counted operator by operator on shapes alone, under each named convention."""
