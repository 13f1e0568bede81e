"""Stand-ins for the vendors' programs, which can't run here: documented command lines, but nothing is created.

They say so in every output. What they check is what the real ones would: every field of their input, the machines that
they would install. What they hand out is the kubeconfig of a rehearsal cluster.
"""
