"""Analysis: studies of trained models (sparsity, projection, theory). Nothing is here yet."""
