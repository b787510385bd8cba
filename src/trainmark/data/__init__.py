"""What members train on: datasets, bootstrap samples, and how an epoch is shared among workers."""
