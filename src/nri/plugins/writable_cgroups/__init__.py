"""Control groups that containers may write, by an annotation of the pod."""
