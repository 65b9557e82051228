"""What is in a checkpoint, on one screen: read from headers, with whatever looks suspicious said aloud."""
