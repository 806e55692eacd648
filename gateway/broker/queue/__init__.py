"""Queue: messages wait, are dispatched to consumers, are settled or come back."""
