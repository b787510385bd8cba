"""A small climate: weather on a latitude–longitude grid, its extreme events, and the files that hold years of it."""
