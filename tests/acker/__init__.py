"""Tests of the package acker."""
