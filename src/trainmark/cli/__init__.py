"""The command line: one module per command, argv in, exit code out, no logic."""
