"""Runs the TPU compiler without a TPU to check a configuration."""
