"""Ways in for a subject: a Python function, a torch or ONNX model, a server, or only files of predictions.

Each adapter is a function of keyword-only arguments that returns a `System`; its name is the key that stands in the assessment
file, and ``(name, parameters)`` builds the same system again in another process.
"""
