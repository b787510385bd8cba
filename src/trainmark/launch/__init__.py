"""Starting a Plan's jobs and following them to their end. Launchers are registered in spec/registries.py."""
