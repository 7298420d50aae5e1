"""Prompts of the studies as text and as tokens; nothing here runs a model."""
