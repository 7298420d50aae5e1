"""Native checks of Hugging Face models: the gate that experiments stand behind."""
