"""Rules of sampling that need no logits: seeds, bans, effective values."""
