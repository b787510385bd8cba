"""Starting a Plan's jobs and watching them to their end. Launchers are named in spec/registries.py."""
