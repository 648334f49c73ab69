"""The experiments of the HCSFed paper: as presets, as runs that share their work, and as tables beside its own figures.

G. Shen et al., "Fast Heterogeneous Federated Learning with Hybrid Client Selection", 2022. Presets are TOML files, the
paper's tables CSV files, both shipped with the package, and so are the figures of our own runs.
"""
