"""What the program says about itself: log lines and metrics."""
