"""The methods. Each is a value; a variant is a swap of one part. `config.methods` lists them by name."""
