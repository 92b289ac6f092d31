"""The rules of the code itself: packages, public names, layers, the wheel, words, and what no file may do."""
