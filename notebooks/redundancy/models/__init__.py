"""Models of the library `transformers`: loaded from a folder or made small, and inputs for them.

The rest of `redundancy` needs only torch.
"""
