"""Observers: sensors, measurements, disturbance observers, prediction, identification."""
