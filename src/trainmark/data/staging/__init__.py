"""The Data Duplicator: samples of a stored split copied to a node's own storage, checked, and used again."""
