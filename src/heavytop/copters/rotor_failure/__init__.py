"""Rotor failure: remaining authority, flight with dead rotors, failover."""
