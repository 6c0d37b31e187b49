#!/bin/bash
# In a node, as its job: set up network, runtime and kubelet as units, then run commands that the host leaves in /mnt/commands.
# Arguments: NUMBER RUNTIME STATE NODE_ADDRESS/PREFIX API_ADDRESS KUBELET PYTHON IMAGES CONTAINERD_BIN BUSYBOX PAUSE
set -u
number=$1 runtime=$2 state=$3 address=$4 api=$5 kubelet=$6 python=$7 images=$8 bin=$9 busybox=${10} pause=${11}
units=/etc/systemd/system
mount -t hostfs state /mnt -o "$state/n$number"
rm -f /mnt/commands/*    # of the node's earlier life
export PYTHONPATH=$state/src    # a copy: the node would see half of a change of the checkout
exec {wait_fd}<> <(:)
commands() {
    while :; do
        for file in /mnt/commands/*.sh; do
            [ -e "$file" ] || continue
            name=${file%.sh}
            mv "$file" "$name.running"
            (bash "$name.running" > "$name.output" 2>&1 < /dev/null; echo $? > "$name.new"; mv "$name.new" "$name.code") &
        done
        read -rt 0.3 -u "$wait_fd"    # sleep would fork, which is slow here
    done
}
set_up() {
    set -eu
    hostname "n$number"
    echo "n$number" > /etc/hostname
    grep -q " n$number\$" /etc/hosts || echo "${address%/*} n$number" >> /etc/hosts
    mount --make-rshared /
    sed 's/^bogomips.*/cpu MHz\t\t: 2000.000\n&/' /proc/cpuinfo > /etc/cpuinfo    # the kubelet requires a clock speed
    mount --bind /etc/cpuinfo /proc/cpuinfo
    ethtool -K vec0 tx off sg off gso off gro off || true
    ip address add "$address" dev vec0
    ip link set vec0 up
    ip route add default via "$api"
    other=$((3 - number))
    ip route add "10.78.$other.0/24" via "${address%.*}.1$other"
    mkdir -p /etc/cni/net.d
    cat > /etc/cni/net.d/10-pods.conflist <<CNI
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "nri0", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.78.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CNI
    "$runtime"
    set_up_kubelet
}
engine() {
    socket=/run/nri-engine/engine.sock unit=nri-engine.service
    mkdir -p /etc/nri
    cat > /etc/nri/engine.toml <<TOML
[cgroups]
driver = "systemd"
parent = "nri-engine.slice"
[nri]
plugin_request_timeout = "30s"
[nri.default_validator]
enable = true
TOML
    "$python" -m nri engine unit > "$units/$unit"
    mkdir -p "$units/$unit.d"
    printf '[Service]\nEnvironment=PYTHONPATH=%s\n' "$PYTHONPATH" > "$units/$unit.d/source.conf"
    systemctl daemon-reload
    systemctl start "$unit"
    [ -e /etc/first-images ] && return
    for image in "$busybox" "$pause"; do
        "$python" -m nri engine load "oci-archive:$images:$image" "$image"
    done
    touch /etc/first-images
}
containerd() {
    socket=/run/containerd/containerd.sock unit=containerd.service
    mkdir -p /etc/containerd
    cat > /etc/containerd/config.toml <<TOML
version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "$pause"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = true
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_request_timeout = "30s"
  [plugins."io.containerd.nri.v1.nri".default_validator]
    enable = true
TOML
    cat > "$units/$unit" <<UNIT
[Unit]
After=dbus.service
[Service]
Type=notify
Environment=PATH=$bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=$bin/containerd
Restart=always
RestartSec=2
Delegate=yes
KillMode=process
LimitNOFILE=1048576
TasksMax=infinity
UNIT
    systemctl daemon-reload
    systemctl start "$unit"
    [ -e /etc/first-images ] && return
    "$bin/ctr" -n k8s.io images import --local "$images"
    touch /etc/first-images
}
set_up_kubelet() {
    mkdir -p /etc/kubernetes
    cat > /etc/kubernetes/kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failSwapOn: false
containerRuntimeEndpoint: unix://$socket
imageServiceEndpoint: unix://$socket
volumePluginDir: /var/lib/kubelet/volumeplugins
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
evictionHard: {memory.available: "1Mi", nodefs.available: "1%", imagefs.available: "1%"}
resolvConf: /etc/resolv.conf
makeIPTablesUtilChains: false
runtimeRequestTimeout: 5m
YAML
    cat > "$units/kubelet.service" <<UNIT
[Unit]
Wants=$unit
After=$unit
StartLimitIntervalSec=0
[Service]
ExecStart=$kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/mnt/kubeconfig --hostname-override=n$number --node-ip=${address%/*} --v=2
Restart=always
RestartSec=2
KillMode=process
UNIT
    systemctl daemon-reload
    systemctl start kubelet
}
set_up > /mnt/setup.log 2>&1 &    # in the background: on the left of ||, the shell would ignore set -e
wait $! || echo "see setup.log" > /mnt/failed
commands
