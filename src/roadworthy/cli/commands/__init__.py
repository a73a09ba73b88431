"""The commands: a module here has ``add_to(app)`` and is named nowhere else."""
