"""The tests, a folder per package. It is a package so that tests/topology is not taken for a module `topology`."""
