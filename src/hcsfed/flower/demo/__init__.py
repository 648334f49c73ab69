"""A Flower federation of real processes on one machine, with certificates and node keys as it would be on many.

- :mod:`~hcsfed.flower.demo.certificates`: who may speak to whom.
- :mod:`~hcsfed.flower.demo.processes`: programs of ours, started, waited for and ended.
- :mod:`~hcsfed.flower.demo.flwr`: Flower's command line.
- :mod:`~hcsfed.flower.demo.federation`: the three together.
"""
