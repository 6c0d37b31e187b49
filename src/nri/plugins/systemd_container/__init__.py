"""What systemd requires of a container, by an annotation of the pod."""
