"""The machine: topology, accelerators, affinity, software, storage, measured ceilings."""
