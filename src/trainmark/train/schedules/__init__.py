"""The learning-rate schedules, one file each: pure functions of the step. Named in spec/registries.py."""
