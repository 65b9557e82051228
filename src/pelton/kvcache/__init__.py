"""Which KV blocks exist and who holds them. Knows no tensors."""
