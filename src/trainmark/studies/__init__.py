"""Studies: points × repeats → runs → analysis → figures."""
