"""Looking inside a model: layers, attention, parameters, embeddings, and predictions by layer."""
