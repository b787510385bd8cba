"""Images in folders: found, decoded, cropped, changed in colour, checked and drawn."""
