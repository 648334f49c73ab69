"""hcsfed on real machines: Flower's server and clients."""
