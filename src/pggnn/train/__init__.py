"""Training, evaluation and prediction: one engine for every data set and model."""
