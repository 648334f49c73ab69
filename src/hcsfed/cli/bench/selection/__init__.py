"""The questions of ``hcsfed bench select``, one a module; each answers with findings."""
