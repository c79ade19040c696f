"""What training adds to the network of `callmemaybe.tuning.network`: vectors of meaning, and weights in a larger network."""
