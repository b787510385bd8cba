"""The models, written here because they are the benchmark; each module builds one family."""
