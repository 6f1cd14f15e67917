"""Looking at motion: scenes of bodies, the self-contained report page, figures for papers."""
