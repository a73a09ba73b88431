"""Subjects: AI systems under assessment, as graphs of modules, and the traces they leave."""
