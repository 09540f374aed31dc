"""The JAX engine."""
