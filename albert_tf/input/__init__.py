"""The input of models: features of examples, masks, and the manifest of TFRecord files."""
