"""surelabel as a scikit-learn classifier."""
