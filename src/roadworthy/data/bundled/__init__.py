"""Data that come with the package: a sample of Fashion-MNIST (MIT licence, text beside it), made by `make`."""
