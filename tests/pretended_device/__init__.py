"""An accelerator for machines without one: every notebook runs on it (``make nightly ONLY=device``).

It computes with the CPU's numbers and keeps them apart as a GPU does: tensors of the two devices do
not mix, numpy sees none of its memory, its random numbers are others.  What a notebook forgets to
move is found where it meets what was moved, and a notebook that moves nothing at its end.  What a
GPU computes differently is not found: ``tests/processors`` imagines that.

Torch leaves a backend of Python no allocator: nothing can be loaded to the device from a file, a
place that holds numbers cannot grow, and there is no generator to be had.  No notebook asks for it.

To be read in this order: ``labels`` (how a tensor lies on another device), ``kernels`` (what is
computed there, and what is refused), ``device`` (how torch learns of it), ``start_up`` (how a
notebook's kernel does), ``plugin`` (what is tested of a notebook), ``unused.yml`` (where nothing
runs on the device, and why).
"""
