"""The packages that `scripts/release` makes, one module each."""
