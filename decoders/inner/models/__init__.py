"""What do calls of language models say? One module a format; ``model_apis`` lists them."""
