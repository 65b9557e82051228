"""The GGUF format: container, metadata to ModelSpec, tokenizer metadata."""
