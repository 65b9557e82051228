"""Whether two checkpoints are the same model: files, fields, tensors, text and numbers, compared level by level.

Knows checkpoints and what they compute, and nothing of how one was made from the other: it judges anybody's conversion.
Source: the levels L0 to L5 of docs/concepts/verification.md.
"""
