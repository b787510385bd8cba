"""Results and progress as people read them."""
