"""Fuzzing the checker: random lines, true and false, and an evaluator that shares nothing with it."""
