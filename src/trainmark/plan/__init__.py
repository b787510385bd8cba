"""RunConfig + Site → Plan: pure functions, no torch, nothing touched."""
