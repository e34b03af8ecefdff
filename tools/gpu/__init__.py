"""What `tools/gpu_record.py` measures, one module for each experiment.

`record` says what a record is, and needs no torch: the page of the book reads with it.
`bench` holds what the experiments share: number formats, kernels, the clock, what may fail.
"""
