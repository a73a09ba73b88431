"""The commands, one file each: a module here has ``add_to(app)``, and needs to be named nowhere else."""
