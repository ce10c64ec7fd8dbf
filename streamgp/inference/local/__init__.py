"""Inference by local blocks: all rows speak through inducing inputs, near rows also to each other.

f_b = W_b u + r_b,  cov(r_b) = R_b = K_bb − W_b W_bᵀ, independent between blocks b: the partially independent
conditional approximation (PIC) with EP. Blocks of one row are FITC, one block of all rows is the exact model.
Pure steps on one block of rows, and sums over blocks; nothing here reads data.
Source: [PIC2007], [FITC2007].
"""
