"""From text to a pretrained, evaluated, fine-tuned and exported ALBERT, and a report of it."""
