"""Images in folders: listing, decoding, augmentation, checks, and drawing of synthetic ones."""
