"""Limits of encrypted memory (Intel SGX) by an annotation."""
