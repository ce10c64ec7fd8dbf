"""Learning the parameters of kernel and likelihoods."""
