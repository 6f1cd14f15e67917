"""State estimation: sensors of any model, an error-state Kalman filter on the manifold, smoothers, observability."""
