"""The Data Duplicator: samples of a stored split copied to node-local storage, verified, and reused."""
