"""Back ends: a program as LLVM IR, C99, NumPy or JAX source, and SymPy."""
