"""Refuse adjustments of other plugins: a validator."""

import nri


class Guard(nri.Plugin):
    """Let only one plugin add mounts, and allow devices only for marked pods."""

    class Config:
        may_mount: str = "10-injector"

    config: Config

    def validate_container_adjustment(self, request: nri.ValidationRequest) -> None:
        adjustment = nri.Adjustment.of(request.adjust)
        for path in adjustment.mounts:
            owner = request.owner("Mounts", path)
            if owner != self.config.may_mount:
                raise nri.Reject(f"{owner} must not mount {path}")
        allowed = nri.effective_annotation(request.pod, "devices.example.com", request.container.name)
        if adjustment.devices and allowed is None:
            raise nri.Reject(f"pod {request.pod.name} gets no devices")


if __name__ == "__main__":
    Guard.main()
