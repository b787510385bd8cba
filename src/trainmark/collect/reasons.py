"""Reasons that several metrics give for being unavailable."""

NO_MEMBER = "no member was trained to the end"
