"""One turn of a model: prompt and grammar from a wire format, decoding, reading, validation."""
