"""PyTorch checkpoints: zip archives with a pickle, read without torch, without `pickle`, and without running them."""
