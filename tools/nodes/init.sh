#!/bin/sh
# The first process of a node: it puts memory over the read-only root, mounts what a node has, and runs the job.
# machine.py writes JOB (a folder of the host with `run`), CHECKOUT, SYSTEMD and DISK (1 or nothing) at the head of its copy.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
if [ -n "$DISK" ]; then
    mount -t devtmpfs dev /dev
    mount -t ext4 /dev/ubda /mnt
else
    mount -t tmpfs -o size=80% tmpfs /mnt
fi
mkdir -p /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
if [ -n "$DISK" ]; then
    for folder in nri-engine containerd kubelet; do    # they have overlays, which cannot lie on this overlay
        mkdir -p "/mnt/lib/$folder" "var/lib/$folder"
        mount --bind "/mnt/lib/$folder" "var/lib/$folder"
    done
fi
mount -t devtmpfs dev dev
mount -t hostfs job srv -o "$JOB"
mkdir -p .checkout
mount --bind ".$CHECKOUT" .checkout    # for one that lies in a folder that gets hidden below
hostname node
echo node > etc/hostname
: > etc/fstab
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 2 > /proc/sys/net/core/fb_tunnels_only_for_init_net    # no sit0 in new network namespaces
ip link set lo up
ulimit -n 65536

if [ -n "$SYSTEMD" ]; then
    mount -t tmpfs -o mode=1777 tmpfs tmp    # else systemd-tmpfiles deletes all files of the machine's /tmp in the overlay
    cat > etc/systemd/system/job.service <<UNIT
[Unit]
DefaultDependencies=no
After=dbus.service
Wants=dbus.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
TimeoutStartSec=infinity
Delegate=yes
LimitNOFILE=65536
Environment=HOME=/root PATH=$PATH
ExecStart=/bin/sh -c 'if [ ! -d "$CHECKOUT" ]; then mkdir -p "$CHECKOUT"; mount --bind /.checkout "$CHECKOUT"; fi; sh /srv/run > /srv/output 2>&1; echo \$? > /srv/code'
UNIT
    # pivot_root and not chroot: in a chroot no user namespace can be created, and setns would go to the host's root.
    pivot_root . mnt
    umount -l /mnt
    exec chroot . /lib/systemd/systemd --unit=job.service < /dev/console > /dev/console 2>&1
fi

mount -t proc proc proc
mount -t sysfs sys sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t cgroup2 cgroup2 sys/fs/cgroup
for controller in $(cat sys/fs/cgroup/cgroup.controllers); do    # as systemd does
    echo "+$controller" > sys/fs/cgroup/cgroup.subtree_control
done
mkdir sys/fs/cgroup/system    # a machine has at least one
mkdir -p dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -sf pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
[ -d ".$CHECKOUT" ] || { mkdir -p ".$CHECKOUT"; mount --bind .checkout ".$CHECKOUT"; }
pivot_root . mnt
umount -l /mnt
exec chroot . /bin/sh -c 'sh /srv/run > /srv/output 2>&1; echo $? > /srv/code; sync; busybox poweroff -f'
