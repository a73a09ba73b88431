"""Systems of modules: awareness, propagation, blame and rejection (Wang et al. 2022), from tables of scores and errors alone."""
