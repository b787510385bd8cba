"""Reasons that several metrics give for being unavailable."""

NO_MEMBER = "no member was trained to the end"
ONE_WORKER = "a member has one worker, which has nobody to talk to"
SYNTHETIC = "synthetic data: there is nothing to be learned"
