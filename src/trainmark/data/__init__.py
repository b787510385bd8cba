"""What members train on: datasets, bootstrap samples, and how an epoch is split over workers."""
