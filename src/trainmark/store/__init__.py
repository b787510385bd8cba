"""Storing and finding runs: plain folders that survive rsync, tar and NFS."""
