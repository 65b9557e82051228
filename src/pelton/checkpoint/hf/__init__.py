"""Directories in the layout of Hugging Face: config.json, safetensors and the files beside them."""
