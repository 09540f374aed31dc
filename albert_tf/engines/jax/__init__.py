"""The JAX engine: one compiled program over the devices of all processes."""
