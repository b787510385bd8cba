"""What a member learns: the loss of a training step and the predictions of a trained model."""
