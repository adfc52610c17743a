"""The nouns of the product: values without I/O. Nothing here imports a service, a framework or another layer."""
