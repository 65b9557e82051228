"""Measurements: how fast, and how true to the reference."""
