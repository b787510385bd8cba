"""The command line: one module a command, argv in, exit code out, no logic."""
