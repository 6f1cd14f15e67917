"""SDF: the robot and world files of Gazebo."""
