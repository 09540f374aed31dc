"""What is asked of the TPU compiler without a TPU."""
