"""The methods, as values; a variant replaces one part. `config.methods` lists them by name."""
