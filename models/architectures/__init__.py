"""Networks, one file each; a model is built from one of them."""
