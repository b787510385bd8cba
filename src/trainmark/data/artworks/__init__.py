"""MAMe's catalogue of artworks, and the sizes and shapes of generated ones."""
