"""Model files of every format: their readers, and the ModelSpec that all of them give."""
