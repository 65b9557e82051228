"""Reader of ONNX files: their weights, under the names that Hugging Face gives them."""
