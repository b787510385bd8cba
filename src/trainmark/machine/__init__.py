"""What this machine is and can do: topology, accelerators, affinity, software, storage, measured ceilings."""
