"""RunChoices + Site → RunConfig + Plan: pure functions, no framework, nothing touched."""
